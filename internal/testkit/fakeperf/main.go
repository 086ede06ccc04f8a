// Command nccl-tests-fakeperf imitates nccl-tests where there is no GPU, to try out and test what starts nccl-tests and
// reads its output. It obeys NCCL's variables and loads the tuner that they name. It prints what nccl-tests and NCCL
// print, with times of package simulate. It is not installed.
//
// It is called by the name of the program that it imitates. Its own settings are variables whose names begin with
// FAKEPERF_; docs/dev/FAKEPERF.md has them.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

func main() { os.Exit(run(os.Args, os.Stdout, os.Stderr)) }

// Exit codes of nccl-tests (testResult_t in its src/common.h).
const (
	exitOK    = 0
	exitCUDA  = 2
	exitNCCL  = 3
	exitWrong = 7
	exitUsage = 255
)

var programs = map[string]nccl.Coll{
	"broadcast_perf": nccl.CollBroadcast, "reduce_perf": nccl.CollReduce, "all_gather_perf": nccl.CollAllGather,
	"reduce_scatter_perf": nccl.CollReduceScatter, "all_reduce_perf": nccl.CollAllReduce,
}

// run is one process of a run.
func run(args []string, stdout, stderr io.Writer) int {
	program, coll, args, err := called(args)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	s, errSettings := readSettings(os.Environ())
	o, help, err := parseOptions(program, args, &s, stdout)
	if help {
		return exitOK
	}
	if err := errors.Join(err, errSettings); err != nil {
		fmt.Fprintf(stderr, "simulated nccl-tests: %v\n", err)
		return exitUsage
	}
	w := findWorld(os.Getenv, o.threads*o.gpus, s.perNode, s.hosts)
	t := &test{program: program, coll: coll, args: os.Args, options: o, settings: s, world: w,
		stdout: bufio.NewWriter(stdout), stderr: stderr}
	if err := w.dump(os.Getenv); err != nil {
		fmt.Fprintf(stderr, "simulated nccl-tests: %v\n", err)
		return exitUsage
	}
	if w.rank > 0 { // only the process of rank 0 prints
		t.wait()
		return exitOK
	}
	code, err := t.lead()
	if err != nil {
		fmt.Fprintf(stderr, "simulated nccl-tests: %v\n", err)
		return exitUsage
	}
	return code
}

// called returns the program to imitate: the name that this one is called by, or its first argument.
func called(args []string) (program string, coll nccl.Coll, rest []string, err error) {
	for i, arg := range args[:min(2, len(args))] {
		name := strings.TrimSuffix(filepath.Base(arg), "_mpi")
		if coll, ok := programs[name]; ok {
			return name, coll, args[i+1:], nil
		}
	}
	return "", 0, nil, fmt.Errorf("simulated nccl-tests: called as %q (allowed as its name or first argument: %s)",
		filepath.Base(args[0]), strings.Join(slices.Sorted(maps.Keys(programs)), ", "))
}
