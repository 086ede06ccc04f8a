// Package command has the commands of tunefit, and runs them.
package command

import (
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// Main runs the command line of the process, and ends it.
func Main() {
	if os.Getenv("GOMEMLIMIT") == "" {
		// With this limit a sweep of a million rows fits into 1 GiB.
		debug.SetMemoryLimit(800 << 20)
	}
	// A closed pipe ends no command, see cli.Output. Child processes would inherit an ignored signal, so it is caught.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(Run(newEnv(os.Stdin), os.Args[1:], os.Stdout, os.Stderr))
}

// newEnv is the environment of a run of tunefit.
func newEnv(stdin io.Reader) cli.Env {
	return cli.Env{Inputs: cli.NewInputs(stdin), Installed: localenv.InstalledNCCL, Tune: channels.Tune}
}

// Run runs a command line where env says, and returns the exit code.
func Run(env cli.Env, args []string, stdout, stderr io.Writer) int {
	root := commands(env)
	root.SetArgs(args)
	out := &cli.Output{Writer: stdout}
	root.SetOut(out)
	stderr = cli.Printable{Writer: stderr}
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	return cli.ExitCode(cmd, out.Complete(err), stderr)
}

// Root returns the commands, for their manual.
func Root() *cobra.Command { return commands(newEnv(nil)) }

func commands(env cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use: "tunefit",
		Short: "Learn, show, check and compare tuning policies of libnccl-tuner-go.so, and show the machine " +
			"as NCCL sees it",
		Version:       tuner.Release,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.UnknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(cli.FlagError)
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Measure and learn:", []*cobra.Command{sweepCommand(env), fitCommand(env), importCommand(env),
			compareCommand(env), learnCommand()}},
		{"Look and check:", []*cobra.Command{
			showCommand(env), explainCommand(env), diffCommand(env), checkCommand(env), topoCommand(env),
		}},
		{"Run and watch:", []*cobra.Command{doctorCommand(), pushCommand(env), statusCommand(), gcCommand()}},
		{"Job profiles:", []*cobra.Command{profileCommand(env)}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.title
			cli.CompleteNames(c)
			root.AddCommand(c)
		}
	}
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, args []string) error {
		about, rest, err := root.Find(args)
		if err == nil && about.HasSubCommands() && len(rest) > 0 {
			return cli.UnknownCommand(about, rest[0])
		}
		return err
	}
	return root
}
