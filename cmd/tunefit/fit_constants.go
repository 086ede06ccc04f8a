package main

import (
	"fmt"
	"io"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// addConstants fits NCCL's own tuning constants into a model and prints which the
// measurements determine.
func addConstants(w io.Writer, set *fit.Set, file *model.File) {
	var home *topo.Summary
	if t := file.Provenance.Topology; t != nil {
		home = &t.Summary
	}
	constants, findings := fit.Constants(set, home)
	file.Constants = constants
	fmt.Fprintln(w, "\nNCCL's tuning constants, in the model:")
	if constants == nil {
		fmt.Fprintln(w, "  none")
	}
	for _, f := range findings {
		if f.Why == "" {
			fmt.Fprintf(w, "  %s: %.3g us, uncertain by %.2g us\n", f, f.Micros, f.Sigma)
		}
	}
	fmt.Fprintln(w, "not determined by these measurements:")
	for _, f := range findings {
		if f.Why != "" {
			fmt.Fprintf(w, "  %s: %s\n", f, f.Why)
		}
	}
	fmt.Fprintln(w, "  the latencies over the network and all bandwidths")
}
