package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// options are those of nccl-tests, with its defaults (src/common.cu, 2.19.6).
type options struct {
	threads, gpus                int
	minBytes, maxBytes           uint64
	stepBytes, stepFactor        uint64
	iters, aggregated, warmup    int
	cycles, check, graphs        int
	blocking, average, unaligned int
	timeout                      int // seconds; 0: none
	cpuTime, timestamps          int
	types, ops                   []string
	root                         int // -1: all
	output                       string
}

var (
	allTypes = []string{"int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16",
		"f8e4m3", "f8e5m2"}
	typeSize = map[string]uint64{"int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "half": 2,
		"float": 4, "double": 8, "bfloat16": 2, "f8e4m3": 1, "f8e5m2": 1}
	// NCCL's names where they are not nccl-tests'.
	typeName = map[string]string{"half": "float16", "float": "float32", "double": "float64", "f8e4m3": "float8e4m3",
		"f8e5m2": "float8e5m2"}
	allOps = []string{"sum", "prod", "max", "min", "avg", "mulsum"}
)

// parseOptions ends the program as nccl-tests does where it cannot go on: with code 0 after its usage, 255 after an
// error.
func parseOptions(program string, args []string, stdout, stderr io.Writer) (o options, code int, done bool) {
	f := pflag.NewFlagSet(program, pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	number := func(into *int, name, short string, value int) { f.IntVarP(into, name, short, value, "") }
	sizes := map[string]*string{}
	size := func(name, short, value string) { sizes[name] = f.StringP(name, short, value, "") }
	number(&o.threads, "nthreads", "t", 1)
	number(&o.gpus, "ngpus", "g", 1)
	size("minbytes", "b", "32M")
	size("maxbytes", "e", "32M")
	size("stepbytes", "i", "1M")
	factor := f.Uint64P("stepfactor", "f", 1, "")
	number(&o.iters, "iters", "n", 20)
	number(&o.aggregated, "agg_iters", "m", 1)
	number(&o.warmup, "warmup_iters", "w", 1)
	number(&o.cycles, "run_cycles", "N", 1)
	number(&o.check, "check", "c", 1)
	op := f.StringP("op", "o", "sum", "")
	dtype := f.StringP("datatype", "d", "float", "")
	number(&o.root, "root", "r", 0)
	number(&o.blocking, "blocking", "z", 0)
	number(&o.timeout, "timeout", "T", 0)
	number(&o.graphs, "cudagraph", "G", 0)
	number(&o.cpuTime, "report_cputime", "C", 0)
	number(&o.timestamps, "report_timestamps", "S", 0)
	f.StringVarP(&o.output, "output_file", "J", "", "")
	number(&o.average, "average", "a", 1)
	number(&o.unaligned, "unalign", "u", 0)
	// Without an effect on what is printed here.
	for _, name := range []string{"parallel_init p", "stream_null y", "local_register R", "cta_policy x"} {
		long, short, _ := strings.Cut(name, " ")
		number(new(int), long, short, 0)
	}
	// Not stood in for: they print or measure something else.
	var others [4]int
	for i, name := range []string{"device_implementation D", "memory M", "per_iter_timing I", "per_iter_skip K"} {
		long, short, _ := strings.Cut(name, " ")
		number(&others[i], long, short, 0)
	}
	number(new(int), "device_cta_count", "V", 16)
	help := f.BoolP("help", "h", false, "")
	if err := f.Parse(args); err != nil || *help {
		if err != nil && !errors.Is(err, pflag.ErrHelp) {
			fmt.Fprintf(stdout, "invalid option: %v\n", err)
		}
		usage(program, f, stdout)
		return o, exitOK, true
	}
	fail := func(format string, args ...any) (options, int, bool) {
		fmt.Fprintf(stderr, format+"\n", args...)
		return o, exitUsage, true
	}
	for name, into := range map[string]*uint64{"minbytes": &o.minBytes, "maxbytes": &o.maxBytes,
		"stepbytes": &o.stepBytes} {
		n, ok := parseSize(*sizes[name])
		if !ok {
			return fail("invalid size specified for '%s'", name)
		}
		*into = n
	}
	o.stepFactor = *factor
	if o.minBytes > o.maxBytes {
		return fail("invalid sizes for 'minbytes' and 'maxbytes': %d > %d", o.minBytes, o.maxBytes)
	}
	if slices.ContainsFunc(others[:], func(n int) bool { return n != 0 }) {
		return fail("stand-in: it does not stand in for -D, -I, -K and -M")
	}
	if o.stepFactor < 2 && o.stepBytes == 0 && o.minBytes < o.maxBytes ||
		o.stepFactor > 1 && o.minBytes == 0 && o.maxBytes > 0 {
		return fail("stand-in: nccl-tests would never come to its last size with -b %d and -i %d -f %d", o.minBytes,
			o.stepBytes, o.stepFactor)
	}
	if min(o.threads, o.gpus, o.iters, o.aggregated) < 1 || min(o.warmup, o.check, o.graphs) < 0 || o.cycles < 1 {
		return fail("stand-in: -t, -g, -n, -m and -N need 1 or more, -w, -c and -G 0 or more")
	}
	o.types, o.ops = chosen(*dtype, "float", allTypes), chosen(*op, "sum", allOps)
	return o, exitOK, false
}

// chosen is the list that a name of nccl-tests selects. As there, a wrong name selects the usual one.
func chosen(name, usual string, all []string) []string {
	switch {
	case name == "all":
		return all
	case slices.Contains(all, name):
		return []string{name}
	}
	return []string{usual}
}

// parseSize reads a number with K, M or G. Like nccl-tests, it looks at one letter only.
func parseSize(text string) (uint64, bool) {
	text = strings.TrimSpace(text)
	end := strings.LastIndexAny(text, "0123456789.") + 1
	n, err := strconv.ParseFloat(text[:end], 64)
	if err != nil || n < 0 || math.IsInf(n, 0) {
		return 0, false
	}
	units := map[byte]float64{'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}
	if unit := strings.ToUpper(strings.TrimSpace(text[end:])); unit != "" {
		scale, ok := units[unit[0]]
		if !ok {
			return 0, false
		}
		n *= scale
	}
	return uint64(n), n < 1<<50
}

func usage(program string, f *pflag.FlagSet, w io.Writer) {
	fmt.Fprintf(w, "USAGE: %s, a stand-in for the program of nccl-tests, with its options:", program)
	f.VisitAll(func(flag *pflag.Flag) { fmt.Fprintf(w, " -%s,--%s", flag.Shorthand, flag.Name) })
	fmt.Fprintln(w)
}
