package doctor

import (
	"regexp"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
)

// untuned are settings of what no tuner is asked about. NCCL compares none of them between ranks: doctor --launch does,
// by what each node finds.
//
// Source: docs/ENV.md; for copy engines src/ce_coll.cc of NCCL 2.30.7.
var untuned = []struct {
	name         string
	counts       func(value string) bool
	does, unlike string // unlike: what happens where ranks differ
}{
	{"NCCL_WIN_ENABLE", func(v string) bool { return v == "0" },
		"no windows, so no symmetric kernels: NCCL asks the tuner about every call",
		": if one differs, the others hang where they register windows"},
	{"NCCL_SYM_NOWIN_ENABLE", func(v string) bool { return v != "0" },
		"a row with ll may start a symmetric kernel for buffers in no window, too. Its channels are NCCL's",
		": one that differs hangs at its first LL call"},
	{"NCCL_CTA_POLICY", func(v string) bool { return v == "2" || strings.Contains(strings.ToUpper(v), "ZERO") },
		"copy engines may take allgathers with buffers in windows, and no tuner is asked about these", ""},
	{"NCCL_SYM_CTAS", nil, "it sets the channels of all symmetric kernels", ": else calls differ silently"},
	{"NCCL_NTHREADS", nil, "it sets the threads of kernels", ": else calls differ silently"},
	{"NCCL_MAX_P2P_NCHANNELS", nil, "it bounds the channels of sends and receives",
		": if one differs, a rank fails at its first call and others hang"},
}

const symKernel = "NCCL_SYM_KERNEL"

// llKernel matches an NCCL_SYM_KERNEL that names a kernel which needs no windows.
var llKernel = regexp.MustCompile(`^\w+_(AGx)?LL`)

// pastTuner says what variables leave of the tuner's say.
func pastTuner(e *localenv.Environment) (found []finding) {
	windows := e.Get("NCCL_WIN_ENABLE") != "0"
	for _, v := range untuned {
		ofWindows := strings.HasPrefix(v.name, "NCCL_SYM_") || v.name == "NCCL_CTA_POLICY"
		if value := e.Get(v.name); value != "" && (v.counts == nil || v.counts(value)) && (windows || !ofWindows) {
			found = append(found, noted("give all ranks the same"+v.unlike, "%s: %s", e.Show(v.name), v.does))
		}
	}
	value := e.Get(symKernel)
	if value == "" || value == "^" || !windows {
		return found
	}
	if llKernel.MatchString(value) {
		return append(found, warned("unset it, unless that is what you want. One rank that differs hangs",
			"%s beats the tuner: before NCCL 2.31 its LL kernel runs at all sizes, for buffers in no window, too",
			e.Show(symKernel)))
	}
	return append(found, noted("give all ranks the same: one that differs hangs", "%s turns off all other symmetric "+
		"kernels, and the tuner decides instead. From NCCL 2.31 on its collectives have only the algorithms that "+
		"NCCL_ALGO names", e.Show(symKernel)))
}

// unusableSymKernel finds an NCCL_SYM_KERNEL that a release does not take as a kernel, or that fails collectives.
func (d *doctor) unusableSymKernel(version nccl.Version, what string) []finding {
	set, ok := d.env.Vars[symKernel]
	if !ok || set.Value == "^" || version < withSymmetricKernels {
		return nil
	}
	if !version.Has(nccl.Models) { // it compares the whole value with each name
		if slices.Contains(channels.SymKernels, set.Value) {
			return nil
		}
		return []finding{warned("unset it, or name one as NCCL spells it: "+strings.Join(channels.SymKernels, ", "),
			"%s: %s names no kernel. All symmetric kernels are off, and NCCL does not say so", what,
			d.env.Show(symKernel))}
	}
	left, err := channels.ParseSymKernel(set.Value, version)
	if err != nil {
		return []finding{failed("correct or unset it", "%s: %v", what, err)}
	}
	named := func(c nccl.Coll) bool { return left[c].Set }
	if d.env.Get("NCCL_ALGO") != "" || !slices.ContainsFunc(nccl.AllColls(), named) {
		return nil
	}
	tell := warned
	if named(nccl.CollBroadcast) { // it has no symmetric kernel
		tell = failed
	}
	return []finding{tell("unset it, or set NCCL_ALGO to algorithms that stay, as in NCCL_ALGO=ring", "%s: %s leaves "+
		"its collectives no algorithm. With buffers in no window, or without a kernel, NCCL fails them with error 5 "+
		"(ncclInvalidUsage)", what, d.env.Show(symKernel))}
}
