package main

import (
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/policytest"
)

func testCommand(env ncclchoice.Env) *cobra.Command {
	var only, nccl string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test POLICY_test.yaml...",
		Short: "Run unit tests of policies",
		Long: `Run unit tests of policies. A test has calls and what the policy must make of them. The
decisions are those of tunefit show. A file of tests:

  policy: example.csv             # or model: model.json, or both; relative to this file
  topology: ../topo/dgx-h100.xml  # or tuning: FILE.json (default: HGX H100)
  nccl: 2.28.9                    # release that asks (default: as of --nccl)
  tests:
    - name: small allreduce takes the tree
      collective: allreduce
      nodes: 2
      ranks: 16                   # or ranks_per_node: 8
      size: [4K, 1K-32K]          # a size, a range, or a list; all must hold
      unavailable: [nvls, any/ll] # of what NCCL offers there
      expect:
        algorithm: tree
        protocol: ll128
        channels: nccl            # nccl: left to NCCL
        comment: small            # words in the comment of the row that decides

A test may also have:
  pipe_ops, reg_buff   of the calls (default: 1 and 0)
  comm_name            what the program calls the communicator
  costs                what NCCL estimates in us, as {ring/simple: 42.5, tree/ll: 30}
It may also expect:
  chunk                a chunk size
  row                  the line of the row that decides
  decided_by           nccl, row or model

Exit code: 0 if all tests pass, 1 if one fails or they cannot be run.`,
		Example: `  tunefit test configs/policies/example_test.yaml
  tunefit test configs/policies/example_test.yaml --run allreduce --json`,
		Args: cli.Args(1, -1, "a file of tests or more"),
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern, err := regexp.Compile(only)
			if err != nil {
				return cli.Usagef("--run: %w", err)
			}
			passed, err := runPolicyTests(env, cmd, args, nccl, pattern, asJSON)
			return cli.Verdict(!passed, err)
		},
	}
	cmd.Flags().StringVar(&nccl, "nccl", "", ncclchoice.NCCLUsage)
	cmd.Flags().StringVar(&only, "run", "", "run only tests whose name matches this regular expression")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object per test")
	return cmd
}

// runPolicyTests reads all files before it runs any.
func runPolicyTests(
	env ncclchoice.Env, cmd *cobra.Command, files []string, nccl string, only *regexp.Regexp, asJSON bool,
) (passed bool, err error) {
	var all []*policytest.File
	for _, file := range files {
		t, err := policytest.Read(env, file)
		if err != nil {
			return false, err
		}
		if nccl != "" {
			t.Costs.NCCL = nccl
		}
		all = append(all, t)
	}
	results := []policytest.Result{}
	for _, t := range all {
		of, asked, comms, err := t.Run(only)
		if err != nil {
			return false, err
		}
		asked.Note(cmd.ErrOrStderr(), comms)
		results = append(results, of...)
	}
	if len(results) == 0 {
		return false, fmt.Errorf("no test's name matches %q", only)
	}
	passed = true
	for _, r := range results {
		passed = passed && r.Passed
	}
	if asJSON {
		return passed, cli.WriteJSON(cmd.OutOrStdout(), results)
	}
	return passed, policytest.Write(cmd.OutOrStdout(), results)
}
