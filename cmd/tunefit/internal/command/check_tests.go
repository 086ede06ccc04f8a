package command

import (
	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/policytest"
)

// runTests runs the tests of a policy or a model. It reads all files before it runs any.
func (o *checkOptions) runTests(cmd *cobra.Command, from ncclchoice.Flags, file string) (failed bool, err error) {
	kind, err := from.Kind(file)
	if err != nil {
		return false, err
	}
	of := ask.Decider{Policy: file}
	if kind == cli.KindModel {
		of = ask.Decider{Model: file}
	}
	var all []*policytest.File
	for _, tests := range o.tests {
		t, err := policytest.Read(from.Env, tests, of)
		if err != nil {
			return false, err
		}
		if from.NCCL != "" {
			t.Costs.NCCL = from.NCCL
		}
		all = append(all, t)
	}
	var results []policytest.Result
	for _, t := range all {
		of, asked, comms, err := t.Run()
		if err != nil {
			return false, err
		}
		asked.Note(cmd.ErrOrStderr(), comms)
		results = append(results, of...)
	}
	for _, r := range results {
		failed = failed || !r.Passed
	}
	if o.asJSON {
		return failed, cli.WriteJSON(cmd.OutOrStdout(), results)
	}
	return failed, policytest.Write(cmd.OutOrStdout(), results)
}
