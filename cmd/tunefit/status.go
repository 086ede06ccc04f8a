package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// rendezvousFlag is --rendezvous.
type rendezvousFlag struct{ name string }

const rendezvousHelp = "where the ranks meet: a directory or etcd://HOST:PORT/PREFIX, as in " + tuner.EnvRendezvous + " (default: that variable, else /dev/shm of this machine)"

func (f *rendezvousFlag) value() string {
	if f.name != "" {
		return f.name
	}
	return os.Getenv(tuner.EnvRendezvous)
}

type statusFlags struct {
	rendezvous rendezvousFlag
	all        bool
	watch      bool
	json       bool
}

func statusCommand() *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the policy version of every live communicator, and changes under way",
		Long: `Show the policy version of every live communicator on this machine, since when it
is in force, changes under way and who has not acknowledged them, and changes that
were refused, with the reason and what to do. For root, all users' jobs.

Listed are communicators whose policy can change during the run (` + tuner.EnvReload + `
is live, the log does not say why not). A version is the digest that the ranks log.
"unknown" is said of processes that only another machine or container knows of.

It reads what the ranks have written down for each other and writes nothing itself.`,
		Example: `  tunefit status
  tunefit status --rendezvous . --all --json`,
		Args: cli.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.rendezvous.name, "rendezvous", "", rendezvousHelp)
	flags.BoolVar(&f.all, "all", false, "also list what communicators that have ended left behind")
	flags.BoolVar(&f.watch, "watch", false, "refresh every second until Ctrl-C; not on a terminal: print again after each change")
	flags.BoolVar(&f.json, "json", false, "print JSON, one object per communicator; with --watch a line for each change")
	return cmd
}

func (f *statusFlags) run(cmd *cobra.Command) error {
	o := newObserver(f.rendezvous.value())
	if !f.watch {
		all, err := o.look(context.Background())
		if err != nil {
			return err
		}
		return f.write(cmd.OutOrStdout(), all)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return watch(ctx, cmd.OutOrStdout(), f.json, func(w io.Writer) error {
		all, err := o.look(ctx)
		if err != nil {
			return err
		}
		return f.write(w, all)
	})
}

// write prints the communicators that are asked for.
func (f *statusFlags) write(w io.Writer, all []communicator) error {
	shown, leftovers := []communicator{}, 0
	for _, c := range all {
		switch {
		case f.all || !c.over():
			shown = append(shown, c)
		default:
			leftovers++
		}
	}
	if f.json {
		return writeStatusJSON(w, shown, f.watch)
	}
	if err := writeStatus(w, shown); err != nil {
		return err
	}
	if len(shown) == 0 {
		fmt.Fprintf(w, "no live communicator whose policy can change %s\n", where(f.rendezvous.value()))
	}
	if leftovers > 0 {
		fmt.Fprintf(w, "%s that %s ended left records behind (--all lists them, tunefit gc removes them)\n",
			cli.CountOf(leftovers, "communicator"), cli.Verb(leftovers, "has", "have"))
	}
	return nil
}

func where(rendezvous string) string {
	if rendezvous == "" {
		return "on this machine"
	}
	return "in " + rendezvous
}
