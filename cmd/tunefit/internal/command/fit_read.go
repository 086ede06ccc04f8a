package command

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// readSweeps pools the measurements of all files and lists why some times were rejected while reading, each reason with
// the place of the first. anyway takes files of which too little can be read, too. Those of found that are no
// measurements are left out. The pools of also get all of it, too.
func readSweeps(pool *fit.Pool, inputs *cli.Inputs, cmd *cobra.Command, files []string, found map[string]bool,
	anyway bool, also ...*fit.Pool) (*fit.Set, []model.Source, []fit.Refusal, error) {
	var sources []model.Source
	var rejected []fit.Refusal
	known := map[string]int{} // in rejected, by reason
	in := newReader(inputs, cmd, files, found, anyway)
	for _, name := range files {
		r, digest := in.read(name)
		if r == nil {
			continue
		}
		for _, p := range append(also, pool) {
			p.Begin(name)
			for i := range r.Samples {
				p.Add(&r.Samples[i])
			}
			for _, m := range slices.Concat(r.Failed, r.NotOffered) {
				p.Fail(&m)
			}
		}
		in.notes = append(in.notes, r.Notes...)
		for _, rej := range r.Rejected {
			i, seen := known[rej.Reason]
			if !seen {
				i = len(rejected)
				known[rej.Reason] = i
				rejected = append(rejected, fit.Refusal{Reason: rej.Reason + " (" + rej.First(r.File) + ")"})
			}
			rejected[i].Rows += rej.Count
		}
		sources = append(sources, model.Source{Name: filepath.Base(name), SHA256: digest, Rows: len(r.Samples)})
	}
	if err := in.finish(cmd.ErrOrStderr()); err != nil {
		return nil, nil, nil, err
	}
	slices.SortFunc(rejected, func(a, b fit.Refusal) int { return strings.Compare(a.Reason, b.Reason) })
	return pool.Set(), sources, rejected, nil
}

// offersOn tells what NCCL offers on the machine of a topology file, as far as that is known: not for RCCL, nor for
// communicators of other nodes.
func offersOn(env ncclchoice.Env, file string) fit.OffersFunc {
	machines := map[nccl.Version]*ncclchoice.Model{}
	return func(key fit.Key, cell nccl.Cell, with string) bool {
		_, release, ok := nccl.MeasuredWith(with)
		if with != "" && !ok {
			return true
		}
		if _, seen := machines[release]; !seen {
			from := ncclchoice.Flags{Env: env, Topo: file}
			if ok {
				from.NCCL = release.String()
			}
			machines[release], _ = from.Read() // nil: ask.ReadMachine says what is wrong with it
		}
		machine := machines[release]
		if machine == nil {
			return true
		}
		t, err := machine.Of(key.Comm)
		if err != nil || t.Comm != key.Comm {
			return true
		}
		const anySize = 1 << 20 // what there is does not depend on it
		return t.Table(key.Coll, anySize, 1)[cell.Algo][cell.Proto] >= 0
	}
}
