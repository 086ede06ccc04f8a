package measure

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// Start is one start of nccl-tests, over sizes that it can step through or in several parts.
type Start struct {
	Name  string    `json:"name"` // of its log; it tells tunefit import what ran
	Key   fit.Key   `json:"key"`
	Sizes []uint64  `json:"sizes"`          // bytes, ascending
	Rows  []fit.Row `json:"rows,omitempty"` // the policy that decides; none: NCCL
	// Policy is the name of the policy, which several starts share.
	Policy string `json:"policy,omitempty"`
}

// Of is the start that measures one configuration, or the default.
func Of(key fit.Key, r fit.Run) Start {
	s := Start{Name: Name(key) + "-default", Key: key, Sizes: r.Sizes}
	if r.Default {
		return s
	}
	s.Name = fmt.Sprintf("%s-%s-%s", Name(key), r.Config.Algo, r.Config.Proto)
	if r.Config.Channels > 0 {
		s.Name += fmt.Sprintf("-%dch", r.Config.Channels)
	}
	s.Policy = s.Name
	s.Rows = []fit.Row{{Key: key, Config: r.Config, Bytes: nccl.Range{Max: r.Sizes[len(r.Sizes)-1]}}}
	return s
}

// Name begins the names of all starts of a subject.
func Name(key fit.Key) string { return fmt.Sprintf("%s-%dn-%dr", key.Coll, key.Nodes, key.Ranks) }

// contenders are the policies that are verified: of the configuration expected to be the fastest at each size, of the
// one that promises most beside it, and so on.
var contenders = [fit.MostContenders]string{"first", "second", "third", "fourth", "fifth"}

// Verification measures the default and what may be faster in turns: one start for the default and one for each
// of three to five policies, whatever the number of sizes and configurations. best holds the configurations at each
// size, the best first.
func Verification(key fit.Key, sizes []uint64, best map[uint64][]fit.Config, repetitions int) (all []Start) {
	base := Name(key) + "-verify"
	for rep := range repetitions {
		turn := fmt.Sprintf("%s-rep%d-", base, rep+1)
		all = append(all, Start{Name: turn + "default", Key: key, Sizes: sizes})
		for k, rank := range contenders {
			s := Start{Name: turn + rank, Key: key, Policy: base + "-" + rank}
			if s.Sizes, s.Rows = policyOf(key, sizes, best, k); len(s.Rows) > 0 {
				all = append(all, s)
			}
		}
	}
	return all
}

// policyOf is the policy of the k-th best at each size: stretches of sizes with one configuration.
func policyOf(key fit.Key, sizes []uint64, best map[uint64][]fit.Config, k int) (measured []uint64, rows []fit.Row) {
	trimmed := TrimUnit(key) - 1
	for i, b := range sizes {
		if k >= len(best[b]) {
			continue
		}
		measured = append(measured, b)
		row := fit.Row{Key: key, Config: best[b][k], Bytes: nccl.Range{Min: b - min(b, trimmed), Max: b}}
		if n := len(rows); n > 0 && rows[n-1].Config == row.Config && rows[n-1].Bytes.Max == sizes[i-1] {
			rows[n-1].Bytes.Max = b
			continue
		}
		rows = append(rows, row)
	}
	return measured, rows
}

// Split is one start for each configuration, for those who cannot change it from size to size.
func (s Start) Split() (all []Start) {
	if len(s.Rows) == 0 {
		return []Start{s}
	}
	for _, row := range s.Rows {
		i := slices.IndexFunc(all, func(o Start) bool { return o.Rows[0].Config == row.Config })
		if i < 0 {
			i = len(all)
			named := Of(s.Key, fit.Run{Config: row.Config, Sizes: s.Sizes}).Name
			all = append(all, Start{Name: s.Name + strings.TrimPrefix(named, Name(s.Key)), Key: s.Key, Policy: named})
		}
		all[i].Rows = append(all[i].Rows, row)
		for _, b := range s.Sizes {
			if row.Bytes.Contains(b) {
				all[i].Sizes = append(all[i].Sizes, b)
			}
		}
	}
	return all
}

var programs = map[nccl.Coll]string{
	nccl.CollBroadcast: "broadcast_perf", nccl.CollReduce: "reduce_perf", nccl.CollAllGather: "all_gather_perf",
	nccl.CollReduceScatter: "reduce_scatter_perf", nccl.CollAllReduce: "all_reduce_perf",
}

// Program is the one of nccl-tests that measures a collective.
func Program(coll nccl.Coll) string { return programs[coll] }

// Forced is the environment of a start of one configuration without our library. A count of channels is forced from
// both sides, and the communicator then may have more than the job has without.
func Forced(c fit.Config) map[string]string {
	env := map[string]string{
		"NCCL_ALGO":  strings.ReplaceAll(c.Algo.String(), "_", ""),
		"NCCL_PROTO": c.Proto.String(),
	}
	if c.Channels > 0 {
		env["NCCL_MIN_NCHANNELS"] = strconv.Itoa(c.Channels)
		env["NCCL_MAX_NCHANNELS"] = strconv.Itoa(c.Channels)
	}
	return env
}

// Tuned is the environment of starts that a policy decides through our library. The library says what it decided when it
// sees a size first, in the warm-up.
func Tuned(library, policy string) map[string]string {
	return map[string]string{
		"NCCL_TUNER_PLUGIN": library, tuner.EnvConfigFile: policy, tuner.EnvLog: "decisions",
		"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV",
	}
}
