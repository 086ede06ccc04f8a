package doctor

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/probe"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

const (
	beats    = " beats the tuner: no row and no model can choose what it excludes"
	bounds   = " bounds the channels that a policy can ask for"
	unset    = "unset it, unless that is what you want"
	alike    = "give all ranks the same"
	silently = alike + ": else calls differ silently"

	symKernel = "NCCL_SYM_KERNEL"
)

// llKernel matches an NCCL_SYM_KERNEL that names a kernel which needs no windows.
var llKernel = regexp.MustCompile(`^\w+_(AGx)?LL`)

// variables are those that decide before the tuner does, set what no tuner is asked about, or hide what it says. NCCL
// compares none of them between ranks: doctor --launch does, by what each node finds.
//
// Source: docs/dev/NCCL.md; for copy engines src/ce_coll.cc of NCCL 2.30.7.
var variables = []struct {
	name   string
	where  func(*doctor) bool      // it has a meaning; nil: everywhere
	counts func(value string) bool // nil: any value but ""
	severity
	found, do string // found follows name and value
}{
	{"NCCL_ALGO", nil, nil, isWarning, beats, unset},
	{"NCCL_PROTO", nil, nil, isWarning, beats, unset},
	{"NCCL_MIN_NCHANNELS", nil, nil, isNote, bounds, ""},
	{"NCCL_MAX_NCHANNELS", nil, nil, isNote, bounds, ""},
	{"NCCL_MIN_CTAS", nil, nil, isNote, bounds, ""},
	{"NCCL_MAX_CTAS", nil, nil, isNote, bounds, ""},
	{"NCCL_CTA_POLICY", nil, policyOf("1", "EFFICIENCY"), isWarning,
		" has less effect with a tuner: NCCL no longer chooses NVLS for registered buffers",
		"give allgather and reducescatter rows with nvls, or unset it"},
	{"NCCL_ENV_PLUGIN", nil, func(v string) bool { return v != "" && !strings.EqualFold(v, "none") }, isNote,
		": the tuner does not hear what it says of NCCL_TUNER_ variables",
		"set the tuner's variables in the environment or in NCCL's files"},
	{"NCCL_WIN_ENABLE", nil, func(v string) bool { return v == "0" }, isNote,
		": no windows, so no symmetric kernels: NCCL asks the tuner about every call",
		alike + ": if one differs, the others hang where they register windows"},
	{"NCCL_SYM_NOWIN_ENABLE", hasWindows, func(v string) bool { return v != "" && v != "0" }, isNote,
		": a row with ll may start a symmetric kernel for buffers in no window, too. Its channels are NCCL's",
		alike + ": one that differs hangs at its first LL call"},
	{"NCCL_CTA_POLICY", hasWindows, policyOf("2", "ZERO"), isNote,
		": copy engines may take allgathers with buffers in windows, and no tuner is asked about these", alike},
	{"NCCL_SYM_CTAS", hasWindows, nil, isNote, ": it sets the channels of all symmetric kernels", silently},
	{"NCCL_NTHREADS", nil, nil, isNote, ": it sets the threads of kernels", silently},
	{"NCCL_MAX_P2P_NCHANNELS", nil, nil, isNote, ": it bounds the channels of sends and receives",
		alike + ": if one differs, a rank fails at its first call and others hang"},
	{symKernel, hasWindows, llKernel.MatchString, isWarning,
		" beats the tuner: before NCCL 2.31 its LL kernel runs at all sizes, for buffers in no window, too",
		unset + ". One rank that differs hangs"},
	{symKernel, hasWindows, func(v string) bool { return v != "" && v != "^" && !llKernel.MatchString(v) }, isNote,
		" turns off all other symmetric kernels, and the tuner decides instead. From NCCL 2.31 on its collectives " +
			"have only the algorithms that NCCL_ALGO names", alike + ": one that differs hangs"},
	{"NCCL_ENQUEUE_REARCH_ENABLE", hasTuner, func(v string) bool { return v != "" && v != "0" }, isNote,
		": from NCCL 2.31.2 on it asks the tuner once about each call, with pipe_ops 1, and takes a symmetric kernel " +
			"that it estimates to be faster than the policy's choice", alike},
	{"NCCL_DEBUG", hasTuner, func(v string) bool { return !showsWarnings(v) }, isWarning,
		": the tuner's warnings are not shown", "set NCCL_DEBUG=WARN, or INFO to see what each communicator runs on"},
	{"NCCL_DEBUG_SUBSYS", isHeard, func(v string) bool { return v != "" && !showsTuner(v) }, isWarning,
		" hides all that the tuner says, warnings too", "add INIT or TUNING to it"},
	{"NCCL_DEBUG_FILE", isHeard, nil, isNote, ": look there for what the tuner says", ""},
	{"LD_PRELOAD", hasTuner, func(v string) bool { return strings.Contains(v, "libmscclpp_nccl") }, isWarning,
		": MSCCL++ stands before NCCL, and no tuner is asked about what it takes",
		"take it out of LD_PRELOAD, if the policy is to decide"},
}

func hasWindows(d *doctor) bool { return d.env.Get("NCCL_WIN_ENABLE") != "0" }

func hasTuner(d *doctor) bool { return !d.Machine }

func isHeard(d *doctor) bool { return hasTuner(d) && showsWarnings(d.env.Get("NCCL_DEBUG")) }

// policyOf matches a policy by its number and by its name, which may be one of several.
func policyOf(number, name string) func(string) bool {
	return func(v string) bool { return v == number || strings.Contains(strings.ToUpper(v), name) }
}

func (d *doctor) examineEnvironment(_ context.Context, r *report) {
	e := d.env
	for _, v := range variables {
		value, shown := e.Get(v.name), e.Show(v.name)
		if value == "" {
			shown = v.name + " is not set"
		}
		if (v.where == nil || v.where(d)) && (v.counts == nil && value != "" || v.counts != nil && v.counts(value)) {
			r.add(v.severity, v.do, "%s%s", shown, v.found)
		}
	}
	if !d.Machine {
		tunerVariables(r, e)
		comparison(r, e)
		bypasses(r, e)
	}
	for _, c := range e.Files {
		variablesFile(r, c, e)
	}
	if e.Ignored != "" {
		r.note("", "%s is not read, since %s is set", e.Ignored, localenv.ConfVariable)
	}
	switch {
	case !r.sound():
	case d.Machine:
		r.fine("nothing in it decides before a policy would")
	default:
		r.fine("nothing in it works against the tuner, and its warnings are shown (%s)", e.Show("NCCL_DEBUG"))
	}
}

// showsWarnings reports whether NCCL shows the tuner's warnings at a level of NCCL_DEBUG.
func showsWarnings(level string) bool {
	return slices.Contains([]string{"WARN", "INFO", "TRACE", "ABORT"}, strings.ToUpper(level))
}

// showsTuner reports whether a list of NCCL's subsystems lets lines of INIT or TUNING
// through; a list that begins with ^ names what is left out.
func showsTuner(subsystems string) bool {
	list, inverted := strings.CutPrefix(strings.ToUpper(subsystems), "^")
	names := strings.Split(list, ",")
	shows := func(name string) bool {
		return (slices.Contains(names, name) || slices.Contains(names, "ALL")) != inverted
	}
	return shows("INIT") || shows("TUNING")
}

// comparison says whether the job can compare its policy as it is told to.
func comparison(r *report, e *localenv.Environment) {
	with := e.Get(tuner.EnvCompare)
	if isOn(e, tuner.EnvDeterministic) || with == "" && e.Get(tuner.EnvCanary) != "1" {
		return // the tuner's own words about its settings name what it refuses
	}
	if reloadMode(e) != "live" {
		r.fail("unset "+tuner.EnvReload+", or what asks for a comparison",
			"%s: nothing is compared, although %s or %s asks for it", e.Show(tuner.EnvReload), tuner.EnvCompare,
			tuner.EnvCanary)
		return
	}
	if with == "" || with == "nccl" {
		return
	}
	if _, _, err := ask.ReadPolicy(new(cli.Inputs), with); err != nil {
		r.fail("name a policy file, or nccl", "%s: %v; nothing is compared", e.Show(tuner.EnvCompare), err)
	}
}

// tunerVariables finds names and values that the tuner does not understand.
func tunerVariables(r *report, e *localenv.Environment) {
	for _, name := range slices.Sorted(maps.Keys(e.Vars)) {
		if do := tuner.MeantVariable(name); do != "" && strings.TrimSpace(name) == name {
			r.warn(do, "%s has no meaning for this tuner", e.Show(name))
		}
	}
	consequence := ""
	if isOn(e, tuner.EnvStrict) {
		consequence = ", and with " + e.Show(tuner.EnvStrict) + " no communicator can be created"
	}
	for _, problem := range tuner.CheckSettings(e.Get) {
		r.fail("correct or unset it", "%s%s", problem, consequence)
	}
}

// isOn reports whether a variable that takes 0 and 1 is on. Values that the tuner does not understand count as 1.
func isOn(e *localenv.Environment, name string) bool {
	s := e.Get(name)
	return s != "" && s != "0"
}

// variablesFile says what a file of variables sets, and which of its lines have no effect.
func variablesFile(r *report, c localenv.File, e *localenv.Environment) {
	if c.Err != nil {
		named := c.Path
		if c.Named {
			named = e.Show(localenv.ConfVariable)
		}
		r.warn("correct the path or the permissions", "%s cannot be read, and NCCL says nothing about it: %v", named,
			c.Err)
		return
	}
	var sets []string
	if slices.ContainsFunc(c.Entries, func(s localenv.Entry) bool { return s.CR }) {
		r.note("", "%s has the line ends of Windows: NCCL drops them since 2.30.3, and before they are part of each "+
			"value", c.Path)
	}
	for _, s := range c.Entries {
		place := fmt.Sprintf("%s:%d", c.Path, s.Line)
		name := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s.Name), "export "))
		if !strings.HasPrefix(name, "NCCL_") {
			continue
		}
		switch winner := e.Vars[s.Name]; {
		case name != s.Name:
			r.warn(fmt.Sprintf("write %s=%s", name, strings.TrimSpace(s.Value)),
				"%s sets %q, not %s: NCCL takes all before the equals sign as the name", place, s.Name, name)
		case s.Beaten && winner.Value != s.Value:
			r.note("", "%s sets %s=%s without effect: %s wins", place, s.Name, s.Value, origin(winner))
		case strings.TrimSpace(s.Value) != s.Value || strings.ContainsAny(s.Value, `"'`):
			r.warn("write it without quotes and blanks", "%s gives %s the value %q, quotes and blanks included", place,
				s.Name, s.Value)
		case !s.Beaten:
			sets = append(sets, s.Name)
		}
	}
	if len(sets) > 0 {
		r.note("", "%s sets %s", c.Path, strings.Join(sets, ", "))
	}
}

// origin names where a value comes from.
func origin(s localenv.Setting) string {
	if s.File == "" {
		return fmt.Sprintf("%q of the environment", s.Value)
	}
	return fmt.Sprintf("%q of %s:%d", s.Value, s.File, s.Line)
}

// frameworks have kernels of their own for collectives inside a node. Whether a job uses them is up to its flags, so
// the environment only tells that it may be such a job.
//
// Sources: vLLM's envs.py and distributed/device_communicators (custom_all_reduce.py, symm_mem.py), SGLang's
// distributed/device_communicators and server arguments, TensorRT-LLM's AllReduceStrategy.
var frameworks = []struct {
	name     string
	prefixes []string // of its variables
	do       string
}{
	{"vLLM", []string{"VLLM_"}, "for NCCL and the policy: vllm serve --disable-custom-all-reduce, and " +
		"VLLM_ALLREDUCE_USE_SYMM_MEM=0, which is 1 if unset"},
	{"SGLang", []string{"SGLANG_", "SGL_"}, "for NCCL and the policy: --disable-custom-all-reduce, and no " +
		"--enable-mscclpp and no --enable-torch-symm-mem"},
	{"TensorRT-LLM", []string{"TRTLLM_", "TLLM_"}, "for NCCL and the policy: allreduce_strategy NCCL instead of AUTO"},
}

// bypasses says whose variables are in the environment that may take collectives past NCCL, and so past the tuner.
func bypasses(r *report, e *localenv.Environment) {
	names := slices.Sorted(maps.Keys(e.Vars))
	for _, f := range frameworks {
		i := slices.IndexFunc(names, func(name string) bool {
			return slices.ContainsFunc(f.prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
		})
		if i >= 0 { // the value may be a key
			r.note(f.do, "%s is set: if this is a job of %s, its own kernels may do the allreduces inside a node, "+
				"and no tuner is asked about these", names[i], f.name)
		}
	}
}

// isRCCL goes by the file's name, since RCCL tells NCCL's version.
func isRCCL(lib *probe.Library) bool { return strings.HasPrefix(filepath.Base(lib.Path), "librccl") }

// examineRCCL says what AMD's library decides by itself.
//
// Source: RCCL's src/misc/msccl/msccl_lifecycle.cc and src/init.cc; of its own tuner src/plugin/tuner.cc and
// src/plugin/tuner/csv_tuner.cc in ROCm/rocm-systems; of direct access rcclDdaEnabled in src/collectives.cc there.
func (d *doctor) examineRCCL(r *report, lib *probe.Library, what string) {
	const beforeOwnTuner nccl.Version = 22800   // NCCL's release that RCCL was at, some months before it had one
	const withDirectAccess nccl.Version = 23004 // builds of that number differ: some do not have it yet
	version := nccl.Version(lib.NCCL)
	r.note("measure these sizes with the library loaded and without",
		"%s: on one node of gfx950 (MI350X, MI355X) any tuner, this one too, turns off its own choice of tree and LL "+
			"from 64 B to 256 KiB a rank. After the tuner it may still force tree or ring", what)
	if version > beforeOwnTuner {
		r.note("compare with RCCL without the library: tunefit sweep does",
			"%s: since April 2026 RCCL has a tuner of its own, with a table for gfx950; any other tuner, this one "+
				"too, takes its place, also where no row matches", what)
		none := d.plugin().lib == nil && !loadsNone(d.env.Get(tuner.EnvPlugin))
		if none && d.env.Get(tuner.EnvConfigFile) != "" {
			r.warn("let RCCL find the library, or unset "+tuner.EnvConfigFile,
				"%s finds no tuner to load: since April 2026 its own then reads %s, and takes rows otherwise or "+
					"skips them (tunefit check --explain rccl-own-tuner)", what, d.env.Show(tuner.EnvConfigFile))
		}
	}
	if version >= withDirectAccess && d.env.Get("RCCL_DDA_ENABLE") != "0" {
		r.note("if the policy is to decide these, set RCCL_DDA_ENABLE=0, and measure so",
			"%s: builds since May 2026 run AllReduce, AllGather and ReduceScatter on one node of 8 ranks, a process "+
				"each, by direct access (DDA), up to RCCL_DDA_THRESHOLD (64 MiB): no tuner is asked, and NCCL_ALGO "+
				"does not count", what)
	}
	if lib.MSCCL && (d.env.Get("RCCL_MSCCL_ENABLE") != "0" || d.env.Get("RCCL_MSCCLPP_ENABLE") != "0") {
		r.note("if the policy is to decide these, set RCCL_MSCCL_ENABLE=0 and RCCL_MSCCLPP_ENABLE=0",
			"%s has MSCCL and may have MSCCL++: no tuner is asked about what they take. MSCCL is on where RCCL has "+
				"algorithms for the machine, or with RCCL_MSCCL_FORCE_ENABLE=1. MSCCL++ takes allreduces and "+
				"allgathers in captured graphs, up to RCCL_MSCCLPP_THRESHOLD (1 MiB)", what)
	}
}

// unusableSymKernel finds an NCCL_SYM_KERNEL that a release does not take as a kernel, or that fails collectives.
func (d *doctor) unusableSymKernel(r *report, version nccl.Version, what string) {
	set, ok := d.env.Vars[symKernel]
	if !ok || set.Value == "^" || version < withSymmetricKernels {
		return
	}
	if !version.Has(nccl.Models) { // it compares the whole value with each name
		if !slices.Contains(channels.SymKernels, set.Value) {
			r.warn("unset it, or name one as NCCL spells it: "+strings.Join(channels.SymKernels, ", "),
				"%s: %s names no kernel. All symmetric kernels are off, and NCCL does not say so", what,
				d.env.Show(symKernel))
		}
		return
	}
	left, err := channels.ParseSymKernel(set.Value, version)
	if err != nil {
		r.fail("correct or unset it", "%s: %v", what, err)
		return
	}
	named := func(c nccl.Coll) bool { return left[c].Set }
	if d.env.Get("NCCL_ALGO") != "" || !slices.ContainsFunc(nccl.AllColls(), named) {
		return
	}
	how := isWarning
	if named(nccl.CollBroadcast) { // it has no symmetric kernel
		how = isError
	}
	r.add(how, "unset it, or set NCCL_ALGO to algorithms that stay, as in NCCL_ALGO=ring",
		"%s: %s leaves its collectives no algorithm. With buffers in no window, or without a kernel, NCCL fails them "+
			"with error 5 (ncclInvalidUsage)",
		what, d.env.Show(symKernel))
}
