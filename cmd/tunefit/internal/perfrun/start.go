package perfrun

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"iter"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// Start is one start of nccl-tests, which runs all sizes once in each pass. Sizes that it cannot step through in one go
// take several processes.
type Start struct {
	Name   string   `json:"name"` // of its log
	Key    fit.Key  `json:"key"`
	Sizes  []uint64 `json:"sizes"` // bytes, ascending
	Passes []Pass   `json:"passes"`
	// Setting are variables that it has beside the site's own, NAME=VALUE with blanks between; of no value: unset.
	Setting string `json:"setting,omitempty"`
}

// Pass is what decides in one pass.
type Pass struct {
	Policy string    `json:"policy,omitempty"` // its name; empty: NCCL's default
	Rows   []fit.Row `json:"rows,omitempty"`   // of the policy; none: its file is there
}

// UnmarshalJSON reads starts of older releases, too, which have one pass.
func (s *Start) UnmarshalJSON(text []byte) error {
	type plain Start
	var read struct {
		plain
		Pass
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	if *s = Start(read.plain); len(s.Passes) == 0 {
		s.Passes = []Pass{read.Pass}
	}
	return nil
}

// notInName are characters that names of files do without.
var notInName = regexp.MustCompile(`[^a-z0-9_]+`)

// Of returns a start of some passes of a plan under a setting. number tells the subject's starts apart.
func Of(key fit.Key, setting string, plan fit.Plan, passes []fit.Pass, number int) Start {
	s := Start{Name: fmt.Sprintf("%s-start%02d", Name(key), number), Key: key, Setting: setting, Sizes: plan.Sizes}
	if setting != "" {
		s.Name += "-" + notInName.ReplaceAllString(strings.ToLower(setting), "-")
	}
	for _, p := range passes {
		s.Passes = append(s.Passes, passOf(key, plan.Sizes, p))
	}
	if len(passes) == 1 { // it has nothing else to tell by
		switch configs := s.ConfigsAt(s.Sizes); len(configs) {
		case 0:
			s.Name += "-default"
		case 1:
			s.Name += fmt.Sprintf("-%s-%s", configs[0].Algo, configs[0].Proto)
			if configs[0].Channels > 0 {
				s.Name += fmt.Sprintf("-%dch", configs[0].Channels)
			}
		default:
			s.Name += "-mixed"
		}
	}
	return s
}

// passOf is a pass with a row for each range of sizes with one configuration. nccl-tests trims sizes.
func passOf(key fit.Key, sizes []uint64, p fit.Pass) (pass Pass) {
	trimmed := TrimUnit(key) - 1
	open := false // whether the last row goes on
	for i, c := range p {
		b := sizes[i]
		switch {
		case c == fit.ByDefault:
			open = false
		case open && pass.Rows[len(pass.Rows)-1].Config == c:
			pass.Rows[len(pass.Rows)-1].Bytes.Max = b
		default:
			pass.Rows = append(pass.Rows, fit.Row{Key: key, Config: c,
				Bytes: nccl.Range{Min: b - min(b, trimmed), Max: b}})
			open = true
		}
	}
	if len(pass.Rows) > 0 { // the same rows have the same file
		pass.Policy = fmt.Sprintf("rows-%.12s", identity.DigestOf(pass.Text()))
	}
	return pass
}

// Text is the policy file of a pass.
func (p Pass) Text() (text []byte) {
	for _, row := range p.Rows {
		text = fmt.Appendln(text, row)
	}
	return text
}

// At is the configuration that a pass asks for at a size; fit.ByDefault: none.
func (p Pass) At(bytes uint64) nccl.Config {
	for _, row := range p.Rows {
		if row.Bytes.Contains(bytes) {
			return row.Config
		}
	}
	return fit.ByDefault
}

// Tuned reports whether a start has a policy in any pass, so that it runs with our library.
func (s *Start) Tuned() bool {
	return slices.ContainsFunc(s.Passes, func(p Pass) bool { return p.Policy != "" })
}

// Only is the configuration of a start that has one pass, and asks for nothing else; fit.ByDefault: for the default.
func (s *Start) Only() (c nccl.Config, is bool) {
	if len(s.Passes) != 1 || len(s.Sizes) == 0 {
		return c, false
	}
	c = s.Passes[0].At(s.Sizes[0])
	return c, !slices.ContainsFunc(s.Sizes, func(b uint64) bool { return s.Passes[0].At(b) != c })
}

// Steps are the ranges of sizes that it runs, each in a process.
func (s *Start) Steps() []Step {
	if len(s.Passes) > 1 {
		return PassSteps(s.Sizes, TrimUnit(s.Key))
	}
	return Steps(s.Sizes, TrimUnit(s.Key))
}

// Name returns what the names of all starts of a subject begin with.
func Name(key fit.Key) string { return fmt.Sprintf("%s-%dn-%dr", key.Coll, key.Nodes, key.Ranks) }

// ConfigsAt returns the configurations that a start asks for at some sizes.
func (s *Start) ConfigsAt(sizes []uint64) (all []nccl.Config) {
	for _, p := range s.Passes {
		for _, row := range p.Rows {
			if slices.ContainsFunc(sizes, row.Bytes.Contains) && !slices.Contains(all, row.Config) {
				all = append(all, row.Config)
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
	return map[string]string{"NCCL_TUNER_PLUGIN": library, tuner.EnvConfigFile: policy, tuner.EnvLog: "decisions"}
}

// InPasses returns the environment in which our library applies another policy in each pass.
func InPasses(library, passes string) map[string]string {
	return map[string]string{"NCCL_TUNER_PLUGIN": library, tuner.EnvPasses: passes}
}

// option is an option of nccl-tests and its value.
var option = regexp.MustCompile(`^(?:-([a-zA-Z])|--([a-z_]+))[= ]?(\S*)$`)

// Repeats is the option by which somebody's own options repeat all sizes; "": none.
func Repeats(args []string) string {
	for name := range optionsOf(args) {
		if slices.Contains([]string{"N", "run_cycles", "s", "stress_cycles"}, name) {
			return name
		}
	}
	return ""
}

// WhySingle says why a start with somebody's own options of nccl-tests measures one pass; "": it measures several. Our
// library knows the passes by sizes that begin anew, so each size has to be asked for once in each.
func WhySingle(args []string) string {
	for name, value := range optionsOf(args) {
		n, err := strconv.Atoi(value)
		isNot := false
		switch name {
		case "w", "warmup_iters":
			isNot = err == nil && n < 1
		case "m", "agg_iters":
			isNot = err == nil && n > 1
		case "d", "datatype", "o", "op", "r", "root":
			isNot = value == "all" || err == nil && n < 0
		case "i", "stepbytes", "D", "device_implementation":
			isNot = true
		}
		if isNot {
			return fmt.Sprintf("--perf-args has %s %s", name, value)
		}
	}
	return ""
}

// optionsOf are the options of a command line with their values, each without dashes.
func optionsOf(args []string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i, arg := range args {
			m := option.FindStringSubmatch(arg)
			if m == nil {
				continue
			}
			value := m[3]
			if value == "" && i+1 < len(args) {
				value = args[i+1]
			}
			if !yield(m[1]+m[2], value) {
				return
			}
		}
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
