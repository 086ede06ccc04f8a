package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
)

// testsVersion is the release of nccl-tests whose output this is.
const testsVersion = "2.19.6"

// lines passes on whole lines only, as a standard output does that nccl-tests has set to be line-buffered; what it
// has of another one is lost where the process dies.
type lines struct {
	out  io.Writer
	rest []byte
}

func (l *lines) Write(text []byte) (int, error) {
	l.rest = append(l.rest, text...)
	if end := bytes.LastIndexByte(l.rest, '\n') + 1; end > 0 {
		whole := l.rest[:end]
		l.rest = slices.Clone(l.rest[end:])
		if _, err := l.out.Write(whole); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}

// flush is for the end of the process.
func (l *lines) flush() {
	_, _ = l.out.Write(l.rest)
	l.rest = nil
}

func (t *test) print(format string, args ...any) { fmt.Fprintf(t.stdout, format, args...) }

// header is what is printed before NCCL starts (writeDeviceReport in src/util.cu).
func (t *test) header() {
	o := &t.options
	step, kind := o.stepBytes, "bytes"
	if o.stepFactor > 1 {
		step, kind = o.stepFactor, "factor"
	}
	t.print("# nccl-tests version %s nccl-headers=%d nccl-library=%d\n", testsVersion, t.settings.nccl, t.settings.nccl)
	t.print("# Collective test starting: %s\n", t.program)
	t.print("# nThread %d nGpus %d minBytes %d maxBytes %d step: %d(%s) warmup iters: %d iters: %d agg iters: %d "+
		"validation: %d graph: %d unalign: %d\n",
		o.threads, o.gpus, o.minBytes, o.maxBytes, step, kind, o.warmup, o.iters, o.aggregated, o.check, o.graphs,
		o.unaligned)
	if o.blocking >= 1 && o.blocking <= 3 {
		t.print("# Blocking Enabled: %s\n", [...]string{"wait and barrier after each inner iteration (-m) ",
			"wait after each inner iteration (-m), no barrier ",
			"wait and barrier after each outer iteration (-n); time excludes barrier "}[o.blocking-1])
	}
	t.print("#\n# Using devices\n")
	for rank := range t.world.ranks() {
		d := t.device(rank)
		t.print("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%s] %s\n", d.Rank, 0, d.Pid, d.Host, d.Device,
			d.Hex, d.Info)
	}
	// The one line that nccl-tests does not have.
	t.print("# stand-in for nccl-tests: there is no GPU, the times are those of %s\n", t.cluster)
}

// device is a rank's GPU.
type device struct {
	Rank   int    `json:"rank"`
	Group  int    `json:"group"`
	Pid    int    `json:"pid"`
	Host   string `json:"hostname"`
	Device int    `json:"device"`
	Hex    string `json:"device_hex"`
	Info   string `json:"device_info"`
}

func (t *test) device(rank int) device {
	host, number := t.world.hostOf(rank)
	return device{Rank: rank, Pid: os.Getpid() + rank/t.world.perRank, Host: host, Device: number,
		Hex: fmt.Sprintf("0000:%02x:00", 0x10+number), Info: bench.FakePerf}
}

// columns are the lines above the rows.
func (t *test) columns() {
	time, stamp, pad, form := "time", "", 0, ""
	if t.options.cpuTime != 0 {
		time = "cputime"
	}
	if t.options.timestamps != 0 {
		stamp, pad, form = "timestamp", 19, "%Y-%m-%d %H:%M:%S"
	}
	t.print("#\n# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          \n", "",
		"", "", "", "")
	line := func(words ...any) {
		t.print("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s %*s\n", words...)
	}
	line("size", "count", "type", "redop", "root", time, "algbw", "busbw", "#wrong", time, "algbw", "busbw",
		"#wrong", pad, stamp)
	line("(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "", pad, form)
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

// half is one of a row's two times.
type half struct {
	micros, algBW, busBW float64
	wrong                int
}

func (t *test) printHalf(h half) {
	wrong := "   N/A"
	if t.options.check > 0 {
		wrong = fmt.Sprintf("%6.6g", float64(h.wrong))
	}
	t.print("  %7s  %6s  %6s  %s", printed(h.micros, 7), printed(h.algBW, 6), printed(h.busBW, 6), wrong)
}

// footer is what a run ends with.
func (t *test) footer() {
	verdict := "OK"
	if t.wrong > 0 {
		verdict = "FAILED"
	}
	t.print("# %-20s : %d %s\n", "Out of bounds values", t.wrong, verdict)
	t.print("# %-20s : %.6g \n", "Avg bus bandwidth", t.average())
	t.print("#\n# Collective test concluded: %s\n#\n\n", t.program)
}
