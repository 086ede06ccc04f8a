package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// options are those of nccl-tests, with its defaults (src/common.cu, 2.19.6).
type options struct {
	threads, gpus         int
	minBytes, maxBytes    uint64
	stepBytes, stepFactor uint64
	iters, warmup, check  int
	cycles                int // how often all sizes are measured
	graphs                int // launches of a CUDA graph of all iterations; 0: calls are launched one by one
	dtype, op             string
}

// dataType is a type of an element: its size, and what NCCL calls it.
type dataType struct {
	bytes uint64
	nccl  string
}

var dataTypes = map[string]dataType{
	"int8": {1, "Int8"}, "uint8": {1, "Uint8"}, "int32": {4, "Int32"}, "uint32": {4, "Uint32"}, "int64": {8, "Int64"},
	"uint64": {8, "Uint64"}, "half": {2, "Float16"}, "float": {4, "Float32"}, "double": {8, "Float64"},
	"bfloat16": {2, "Bfloat16"}, "f8e4m3": {1, "Float8e4m3"}, "f8e5m2": {1, "Float8e5m2"},
}

var ops = []string{"sum", "prod", "max", "min", "avg", "mulsum"}

// parseOptions reads the command line. It prints the usage to stdout if that is asked for; then help is true.
func parseOptions(program string, args []string, s *settings, stdout io.Writer) (o options, help bool, err error) {
	f := pflag.NewFlagSet(program, pflag.ContinueOnError)
	f.Usage = func() {}
	number := func(into *int, name, short string, value int) { f.IntVarP(into, name, short, value, "") }
	number(&o.threads, "nthreads", "t", 1)
	number(&o.gpus, "ngpus", "g", 1)
	least := f.StringP("minbytes", "b", "32M", "")
	most := f.StringP("maxbytes", "e", "32M", "")
	step := f.StringP("stepbytes", "i", "1M", "")
	f.Uint64VarP(&o.stepFactor, "stepfactor", "f", 1, "")
	number(&o.iters, "iters", "n", 20)
	number(&o.warmup, "warmup_iters", "w", 1)
	number(&o.check, "check", "c", 1)
	switch o.cycles = 1; {
	case s.rccl:
		number(&o.cycles, "stress_cycles", "s", 1)
	case !slices.ContainsFunc(s.fails, func(f failure) bool { return f.what == failNoCycles }):
		number(&o.cycles, "run_cycles", "N", 1)
	}
	number(&o.graphs, "cudagraph", "G", 0)
	f.StringVarP(&o.op, "op", "o", "sum", "")
	f.StringVarP(&o.dtype, "datatype", "d", "float", "")
	f.BoolVarP(&help, "help", "h", false, "")
	var usage strings.Builder
	f.VisitAll(func(flag *pflag.Flag) { fmt.Fprintf(&usage, " -%s,--%s", flag.Shorthand, flag.Name) })
	if err := f.Parse(args); err != nil {
		return o, false, fmt.Errorf("%w (allowed of nccl-tests' options:%s)", err, usage.String())
	}
	if help {
		fmt.Fprintf(stdout, "USAGE: %s, the program of nccl-tests, simulated, with its options:%s\n", program,
			usage.String())
		return o, true, nil
	}
	for _, size := range []struct {
		name, text string
		into       *uint64
	}{{"minbytes", *least, &o.minBytes}, {"maxbytes", *most, &o.maxBytes}, {"stepbytes", *step, &o.stepBytes}} {
		var ok bool
		if *size.into, ok = parseSize(size.text); !ok {
			return o, false, fmt.Errorf("invalid size specified for '%s'", size.name)
		}
	}
	_, known := dataTypes[o.dtype]
	switch {
	case o.minBytes > o.maxBytes:
		err = fmt.Errorf("invalid sizes for 'minbytes' and 'maxbytes': %d > %d", o.minBytes, o.maxBytes)
	case o.stepFactor < 2 && o.stepBytes == 0 && o.minBytes < o.maxBytes,
		o.stepFactor > 1 && o.minBytes == 0 && o.maxBytes > 0:
		err = fmt.Errorf("nccl-tests would never reach its last size with -b %d and -i %d -f %d", o.minBytes,
			o.stepBytes, o.stepFactor)
	case o.cycles < 1:
		err = errors.New("the number of cycles needs 1 or more (with 0 nccl-tests never ends)")
	case min(o.threads, o.gpus, o.iters) < 1 || min(o.warmup, o.check, o.graphs) < 0:
		err = fmt.Errorf("-t, -g and -n need 1 or more, -w, -c and -G 0 or more")
	case !known:
		err = fmt.Errorf("unknown -d %s (allowed: %s)", o.dtype,
			strings.Join(slices.Sorted(maps.Keys(dataTypes)), ", "))
	case !slices.Contains(ops, o.op):
		err = fmt.Errorf("unknown -o %s (allowed: %s)", o.op, strings.Join(ops, ", "))
	}
	return o, false, err
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
