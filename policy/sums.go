package policy

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/when"
)

// sums are the collectives that add. Algorithm, protocol and channels decide in which order, and so the last bits.
var sums = []nccl.Coll{nccl.CollAllReduce, nccl.CollReduceScatter, nccl.CollReduce}

// CheckSums returns the rows by which one communicator could add in different ways: by the call's size, by
// NCCL's choice, or by what NCCL offers for the data type, which no tuner sees. nil: no row does. A collective
// without a row is left to NCCL, which is not the policy's doing.
//
// It does not evaluate conditions. Two rows with different ones count as rows for different communicators.
func (p *Policy) CheckSums() (all Problems) {
	var sound []*Rule // those that break nothing by themselves
	for i := range p.Rules {
		r := &p.Rules[i]
		if !r.Adds() {
			continue
		}
		before := len(all)
		r.varies(func(column, format string, args ...any) {
			at := p.header.columnNumber(column)
			all = append(all, Problem{p.File, r.Line, at, fmt.Sprintf(format, args...)})
		})
		if len(all) > before {
			continue
		}
		for _, o := range sound {
			if o.Ask != r.Ask && o.sharesSums(&r.Match) {
				all = append(all, Problem{p.File, r.Line, 0, fmt.Sprintf("the row asks for %s where line %d asks "+
					"for %s, and which one decides depends on what is available in NCCL (needed: the same, or other "+
					"communicators)",
					r.Asks(), o.Line, o.Asks())})
				break
			}
		}
		sound = append(sound, r)
	}
	all.sort()
	return all
}

// Adds reports whether the rule can match a collective that adds.
func (m *Match) Adds() bool { return slices.ContainsFunc(sums, m.isForColl) }

// varies reports what lets the rule decide calls of one communicator in different ways. column is where it stands.
func (r *Rule) varies(report func(column, format string, args ...any)) {
	sized := func(least, most, of string, sizes nccl.Range) {
		column := most
		if sizes.Max == nccl.Inf {
			column = least
		}
		if sizes != nccl.EverySize {
			report(column, "the row is for %s%s only, so that sums depend on the size of the call (needed: no limit)",
				sizes, of)
		}
	}
	sized("min_bytes", "max_bytes", "", r.Bytes)
	sized("min_bytes_per_rank", "max_bytes_per_rank", " per rank", r.BytesPerRank)
	for n := OfCall; n < NumNumbers; n++ {
		if r.Numbers[n] != anyInt {
			report(n.String(), "%s %d: it differs between calls of one communicator (needed: any)", n, r.Numbers[n])
		}
	}
	if r.Name != "" || r.When.Asks(when.Name) {
		column := "when"
		if r.Name != "" {
			column = "comm_name"
		}
		report(column, "the row asks for the communicator's name, which ranks only know where they agree on edits "+
			"(needed: nodes, ranks or ranks_per_node)")
	}
	if r.When != nil && r.When.PerCall {
		report("when", "the condition depends on the call (needed: none of coll, bytes, bytes_per_rank, pipe_ops)")
	}
	if r.LeavesToNCCL() {
		report("algorithm", "the row leaves algorithm and protocol to NCCL, which chooses by size (needed: one "+
			"of each)")
		return
	}
	one := func(column string, n int, set string) {
		if n != 1 {
			report(column, "%s %s: NCCL chooses one by size (needed: one)", column, set)
		}
	}
	one("algorithm", bits.OnesCount16(r.Cells.algos), setText(r.Cells.algos, everyCell.algos, nccl.Algos))
	one("protocol", bits.OnesCount8(r.Cells.protos), setText(r.Cells.protos, everyCell.protos, nccl.Protos))
	if r.Channels == 0 && r.canSetChannels() {
		report("channels", "the row leaves channels to NCCL, which chooses by size (needed: 1 to %d)",
			nccl.MaxChannels)
	}
}

// canSetChannels reports whether a tuner can set the channels of an algorithm that the row asks for.
func (r *Rule) canSetChannels() bool {
	nodes := max(1, int(Completed(r.Numbers)[Nodes])) // 1 where any: more could be set there than on several
	for a := range nccl.Algo(len(nccl.Algos.Known)) {
		if r.Cells.algos>>a&1 != 0 && nccl.ChannelsCanBeSet(a, nodes) {
			return true
		}
	}
	return false
}

// sharesSums reports whether both rules can match one communicator, and one of the collectives that add.
func (m *Match) sharesSums(o *Match) bool {
	a, b := Completed(m.Numbers), Completed(o.Numbers)
	for n := range OfCall {
		if a[n] != anyInt && b[n] != anyInt && a[n] != b[n] {
			return false
		}
	}
	return (m.Coll == anyColl || o.isForColl(m.Coll)) && m.NCCL.Overlaps(o.NCCL) &&
		(m.When == nil || o.When == nil || m.When == o.When)
}
