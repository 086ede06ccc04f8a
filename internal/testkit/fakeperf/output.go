package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
)

// testsVersion is the release of nccl-tests whose output this is.
const testsVersion = "2.19.6"

// print passes on whole lines only: nccl-tests sets its standard output to be line-buffered, and a process that dies
// loses the rest.
func (t *test) print(format string, args ...any) {
	fmt.Fprintf(t.stdout, format, args...)
	if strings.HasSuffix(format, "\n") {
		_ = t.stdout.Flush()
	}
}

// header is what is printed before NCCL starts (writeDeviceReport in src/util.cu).
func (t *test) header() {
	o := &t.options
	step, kind := o.stepBytes, "bytes"
	if o.stepFactor > 1 {
		step, kind = o.stepFactor, "factor"
	}
	t.print("# nccl-tests version %s nccl-headers=%d nccl-library=%d\n", testsVersion, t.settings.nccl, t.settings.nccl)
	t.print("# Collective test starting: %s\n", t.program)
	t.print("# nThread %d nGpus %d minBytes %d maxBytes %d step: %d(%s) warmup iters: %d iters: %d agg iters: 1 "+
		"validation: %d graph: %d unalign: 0\n",
		o.threads, o.gpus, o.minBytes, o.maxBytes, step, kind, o.warmup, o.iters, o.check, o.graphs)
	t.print("#\n# Using devices\n")
	for rank := range t.world.ranks() {
		host, device := t.world.hostOf(rank)
		t.print("#  Rank %2d Group %2d Pid %6d on %10s device %2d [0000:%02x:00] %s\n", rank, 0,
			os.Getpid()+rank/t.world.perRank, host, device, 0x10+device, bench.FakePerf)
	}
	// nccl-tests does not have this line.
	t.print("# simulated nccl-tests: there is no GPU, the times are those of %s\n", t.cluster)
}

// columns are the lines above the rows.
func (t *test) columns() {
	t.print("#\n# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          \n", "",
		"", "", "", "")
	line := func(words ...any) {
		t.print("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s \n", words...)
	}
	line("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
		"#wrong")
	line("(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "")
}

// printed writes a number into a column, with fewer digits where it is wide (getFloatStr in src/util.cu).
func printed(v float64, width int) string {
	for _, digits := range []string{"%*.2f", "%*.1f", "%*.0f"} {
		if text := fmt.Sprintf(digits, width, v); len(text) <= width {
			return text
		}
	}
	if width >= 7 {
		return fmt.Sprintf("%*.1e", width, v)
	}
	return fmt.Sprintf("%*.0e", width, v)
}

// footer is what a run ends with.
func (t *test) footer() {
	verdict := "OK"
	if t.wrong > 0 {
		verdict = "FAILED"
	}
	t.print("# %-20s : %d %s\n", "Out of bounds values", t.wrong, verdict)
	t.print("# %-20s : %.6g \n", "Avg bus bandwidth", t.busBW/float64(t.halves))
	t.print("#\n# Collective test concluded: %s\n#\n\n", t.program)
}
