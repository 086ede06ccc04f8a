package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// What can be made to fail.
const (
	failCrash     = "crash"             // dies of a signal
	failCUDA      = "cuda-error"        // ends with an error of CUDA
	failHang      = "hang"              // never ends, and ignores SIGTERM, as a child of it does
	failWrong     = "wrong"             // a size has wrong results
	failUnsupport = "unsupported"       // NCCL does not have the configuration
	failNodeLost  = "node-lost"         // NCCL loses its connection to the last node
	failTruncated = "truncated"         // the output ends in the middle of a row
	failSlow      = "slow"              // sizes take twice as long
	failNoPlugin  = "plugin-not-loaded" // NCCL does not find its tuner
	failNoCycles  = "no-cycles"         // nccl-tests before 2.13.10: there is no -N
)

var failures = []string{failCrash, failCUDA, failHang, failWrong, failUnsupport, failNodeLost, failTruncated,
	failSlow, failNoPlugin, failNoCycles}

// failure is one thing that fails, and when: always, at one start by its number, or for a configuration.
type failure struct {
	what   string
	start  int          // 0: any
	config *nccl.Config // -1 and 0 match any; nil: all configurations
}

// parseFailure reads WHAT, WHAT:3, WHAT:nvls, WHAT:ring/ll or WHAT:ring/ll/8.
func parseFailure(text string) (f failure, err error) {
	what, when, limited := strings.Cut(text, ":")
	if f.what = what; !slices.Contains(failures, what) {
		return f, fmt.Errorf("unknown failure %q (%sallowed: %s)", what, wording.DidYouMean(what, failures),
			strings.Join(failures, ", "))
	}
	if !limited {
		return f, nil
	}
	if f.start, err = strconv.Atoi(when); err == nil {
		if f.start < 1 {
			err = fmt.Errorf("%q is not the number of a start (allowed: 1 and more)", when)
		}
		return f, err
	}
	f.config = &nccl.Config{Cell: nccl.NoCell}
	if strings.Contains(when, "/") {
		*f.config, err = nccl.ParseConfig(when)
	} else {
		f.config.Algo, err = nccl.Algos.Parse(when)
	}
	return f, err
}

// isNow reports whether a failure that does not depend on the configuration happens in this start.
func (f *failure) isNow(start int) bool { return f.config == nil && (f.start == 0 || f.start == start) }

// is reports whether a configuration fails.
func (f *failure) is(c nccl.Config) bool {
	want := f.config
	return want != nil && want.Algo == c.Algo && (want.Proto < 0 || want.Proto == c.Proto) &&
		(want.Channels == 0 || want.Channels == c.Channels)
}

// at is what happens at a row: in the middle of the run, or at a configuration that fails; "": nothing.
func (s *settings) at(row, rows int, c nccl.Config) string {
	for _, f := range s.fails {
		if f.what == failNoPlugin || f.what == failNoCycles {
			continue // not at a row
		}
		if f.is(c) || f.isNow(s.start) && (row == rows/2 || row > rows/2 && f.what == failSlow) {
			return f.what
		}
	}
	return ""
}
