package lint

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/when"
)

// later are what rows may ask that not every release of NCCL has, with the release that brought it.
var later = []struct {
	column string
	what   string
	since  nccl.Change
	is     func(*row) bool
	idle   bool // without it the row never matches
}{
	{"chunk_bytes", "asks no tuner for chunk sizes", nccl.ChunkSizes,
		func(r *row) bool { return r.ChunkBytes > 0 }, false},
	{"reg_buff", "does not tell whether buffers are registered", nccl.TellsRegistered,
		func(r *row) bool { return r.Numbers[policy.RegBuff] >= 0 }, true},
	{"comm_name", noName, nccl.TellsName, func(r *row) bool { return r.Name != "" }, true},
	{"when", noName, nccl.TellsName, func(r *row) bool { return r.When.Asks(when.Name) }, true},
	{"algorithm", "has no pat", nccl.PAT, func(r *row) bool { return r.cells == r.cells&patCells }, true},
	{"algorithm", "offers pat only where each node has one rank", nccl.PATOnManyRanks,
		func(r *row) bool { return r.cells == r.cells&patCells && r.onManyRanks() }, true},
}

const noName = "does not tell a communicator's name"

var patCells = cellsWhere(func(c nccl.Cell) bool { return c.Algo == nccl.AlgoPAT })

// onManyRanks reports whether all communicators of the row have nodes with several ranks.
func (r *row) onManyRanks() bool {
	nodes, ranks := r.key.wants[policy.Nodes], r.key.wants[policy.Ranks]
	return r.key.wants[policy.RanksPerNode] > 1 || nodes > 0 && ranks > nodes
}

// release checks the row against the releases that it is for: those that it names, and of these the one in use. It
// reports whether what the row asks for may be offered there.
func (c *check) release(r *row) bool {
	if !r.NCCL.Overlaps(nccl.WithTuner) {
		c.report(noEffectInRelease, r.Line, "nccl", "no release of NCCL in %s is known (known: %s to %s)",
			c.sheet.Field(r.Line, "nccl"), nccl.WithTuner.Min, nccl.WithTuner.Max)
		return true
	}
	releases := r.NCCL
	if c.opt.NCCL != 0 {
		if !releases.Contains(nccl.Only(c.opt.NCCL)) {
			c.report(noEffectInRelease, r.Line, "nccl", "the row is for NCCL %s, and NCCL %s gets its own choice",
				r.NCCL, c.opt.NCCL).Severity = Note
			return true
		}
		releases = nccl.Only(c.opt.NCCL)
	}
	for _, l := range later {
		if !l.is(r) || releases.Overlaps(since(l.since)) {
			continue
		}
		outcome := "it is left to NCCL"
		if l.idle {
			outcome = "the row never decides"
		}
		c.report(noEffectInRelease, r.Line, l.column, "NCCL %s %s, which comes with %s: %s", releases, l.what,
			nccl.Version(l.since), outcome)
		return !l.idle
	}
	return true
}
