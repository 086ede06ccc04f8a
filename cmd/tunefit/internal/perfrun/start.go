package perfrun

import (
	"debug/elf"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// Start is one measurement by nccl-tests. Sizes that it cannot step through in one go take several processes.
type Start struct {
	Name  string    `json:"name"` // of its log
	Key   fit.Key   `json:"key"`
	Sizes []uint64  `json:"sizes"`          // bytes, ascending
	Rows  []fit.Row `json:"rows,omitempty"` // the policy that decides; none: NCCL
	// Policy is the name of the policy, which several starts share.
	Policy string `json:"policy,omitempty"`
}

// Of returns the start that measures a run.
func Of(key fit.Key, r fit.Run) Start {
	s := Start{Name: Name(key) + "-default", Key: key, Sizes: r.Sizes, Rows: rows(key, r)}
	switch configs := slices.Compact(slices.Clone(r.Configs)); len(configs) {
	case 0:
		return s
	case 1:
		s.Name = nameOf(key, configs[0])
	default: // no two of them have the same name
		s.Name = fmt.Sprintf("%s-mixed-%.6s", Name(key), identity.DigestOf(fmt.Append(nil, s.Rows)))
	}
	s.Policy = s.Name
	return s
}

// nameOf returns a name for a start of one configuration of its own.
func nameOf(key fit.Key, c nccl.Config) string {
	name := fmt.Sprintf("%s-%s-%s", Name(key), c.Algo, c.Proto)
	if c.Channels > 0 {
		name += fmt.Sprintf("-%dch", c.Channels)
	}
	return name
}

// rows returns a run's policy, a row for each range of sizes with one configuration. nccl-tests trims sizes.
func rows(key fit.Key, r fit.Run) (rows []fit.Row) {
	trimmed := TrimUnit(key) - 1
	for i, c := range r.Configs {
		b := r.Sizes[i]
		if n := len(rows); n > 0 && rows[n-1].Config == c {
			rows[n-1].Bytes.Max = b
			continue
		}
		rows = append(rows, fit.Row{Key: key, Config: c, Bytes: nccl.Range{Min: b - min(b, trimmed), Max: b}})
	}
	return rows
}

// Name returns what the names of all starts of a subject begin with.
func Name(key fit.Key) string { return fmt.Sprintf("%s-%dn-%dr", key.Coll, key.Nodes, key.Ranks) }

// ranks are the names of the policies that are verified.
var ranks = []string{"first", "second", "third"}

// Verification returns the starts that measure the default and each policy in turns. The default comes again at the
// end, which tells how much the machine has changed. Without policies there is nothing to verify and no start.
func Verification(key fit.Key, sizes []uint64, policies []fit.Run, repetitions int) (all []Start) {
	if len(policies) == 0 {
		return nil
	}
	base := Name(key) + "-verify"
	byDefault := func(rep int) {
		all = append(all, Start{Name: fmt.Sprintf("%s-rep%d-default", base, rep), Key: key, Sizes: sizes})
	}
	for rep := 1; rep <= repetitions; rep++ {
		byDefault(rep)
		for k, r := range policies {
			all = append(all, Start{
				Name: fmt.Sprintf("%s-rep%d-%s", base, rep, ranks[k]), Key: key, Sizes: r.Sizes,
				Rows: rows(key, r), Policy: base + "-" + ranks[k],
			})
		}
	}
	byDefault(repetitions + 1)
	return all
}

// ConfigsAt returns the configurations that a policy decides on at the given sizes.
func (s Start) ConfigsAt(sizes []uint64) (all []nccl.Config) {
	for _, row := range s.Rows {
		if slices.ContainsFunc(sizes, row.Bytes.Contains) && !slices.Contains(all, row.Config) {
			all = append(all, row.Config)
		}
	}
	return all
}

// Split returns one start for each configuration, for use without our library, which changes it from size to size.
func (s Start) Split() (all []Start) {
	if len(s.Rows) == 0 || s.Name == nameOf(s.Key, s.Rows[0].Config) {
		return []Start{s}
	}
	for _, row := range s.Rows {
		i := slices.IndexFunc(all, func(o Start) bool { return o.Rows[0].Config == row.Config })
		if i < 0 {
			i = len(all)
			named := nameOf(s.Key, row.Config)
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

// Program returns the name of the nccl-tests program that measures a collective.
func Program(coll nccl.Coll) string { return programs[coll] }

// Tuned returns the environment in which our library applies a policy. The library logs its decision when it first
// sees a size, which is in the warm-up.
func Tuned(library, policy string) map[string]string {
	return map[string]string{
		"NCCL_TUNER_PLUGIN": library, tuner.EnvConfigFile: policy, tuner.EnvLog: "decisions",
		"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV",
	}
}

// HasMPI reports whether a program of nccl-tests in a folder (empty: PATH) starts as a rank of MPI. A program that is
// not here, or that starts another one, does not tell.
func HasMPI(folder, program string) bool {
	if folder != "" {
		program = filepath.Join(folder, program)
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return false
	}
	file, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	libraries, err := file.ImportedLibraries()
	return err == nil && slices.ContainsFunc(libraries, func(l string) bool { return strings.HasPrefix(l, "libmpi") })
}
