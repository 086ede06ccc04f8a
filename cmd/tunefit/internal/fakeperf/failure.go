package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
)

// What can be made to fail.
const (
	failCrash     = "crash"             // dies of a signal
	failCUDA      = "cuda-error"        // ends with an error of CUDA
	failHang      = "hang"              // never ends
	failHangChild = "hang-child"        // the same, and ignores SIGTERM, as a child of it does
	failWrong     = "wrong"             // a size has wrong results
	failUnsupport = "unsupported"       // NCCL does not have the configuration
	failNodeLost  = "node-lost"         // what has started the processes loses a node
	failTruncated = "truncated"         // the output ends in the middle of a row
	failNoPlugin  = "plugin-not-loaded" // NCCL does not find its tuner
	failSlow      = "slow"              // all times are a fifth longer
)

var failures = []string{failCrash, failCUDA, failHang, failHangChild, failWrong, failUnsupport, failNodeLost,
	failTruncated, failNoPlugin, failSlow}

// failure is one thing that fails, and when: always, at starts by their number, or for a configuration.
type failure struct {
	what        string
	first, last int          // starts; 0: any
	config      *nccl.Config // -1 and 0 match any; nil: all configurations
}

// parseFailure reads WHAT, WHAT:3, WHAT:3-, WHAT:3-5, WHAT:nvls, WHAT:ring/ll or WHAT:ring/ll/8.
func parseFailure(text string) (failure, error) {
	var f failure
	what, when, limited := strings.Cut(text, ":")
	if f.what = what; !slices.Contains(failures, what) {
		return f, fmt.Errorf("unknown failure %q (%sallowed: %s)", what, suggest.DidYouMean(what, failures),
			strings.Join(failures, ", "))
	}
	if !limited {
		return f, nil
	}
	if when != "" && when[0] >= '0' && when[0] <= '9' {
		return f, f.parseStarts(when)
	}
	c := nccl.Config{Cell: nccl.NoCell}
	var err error
	if strings.Contains(when, "/") {
		c, err = nccl.ParseConfig(when)
	} else {
		c.Algo, err = nccl.Algos.Parse(when)
	}
	f.config = &c
	return f, err
}

func (f *failure) parseStarts(when string) (err error) {
	first, last, isRange := strings.Cut(when, "-")
	if f.first, err = strconv.Atoi(first); err == nil {
		switch {
		case !isRange:
			f.last = f.first
		case last == "":
			f.last = 1 << 30
		default:
			f.last, err = strconv.Atoi(last)
		}
	}
	if err != nil || f.first < 1 || f.last < f.first {
		return fmt.Errorf("%q are no starts (allowed: as 3, 3- or 3-5)", when)
	}
	return nil
}

// isNow reports whether a failure that does not depend on the configuration happens in this start.
func (f *failure) isNow(start int) bool {
	return f.config == nil && (f.first == 0 || f.first <= start && start <= f.last)
}

// is reports whether a configuration fails.
func (f *failure) is(c nccl.Config) bool {
	want := f.config
	return want != nil && want.Algo == c.Algo && (want.Proto < 0 || want.Proto == c.Proto) &&
		(want.Channels == 0 || want.Channels == c.Channels)
}

// starting reports whether a failure of the whole run happens.
func (s *settings) starting(what string) bool {
	return slices.ContainsFunc(s.fails, func(f failure) bool { return f.what == what && f.isNow(s.start) })
}

// at is what happens at a row: in the middle of the run, or where a configuration comes that fails; "": nothing.
func (s *settings) at(row, rows int, c nccl.Config) string {
	for _, f := range s.fails {
		if f.is(c) || f.isNow(s.start) && row == rows/2 {
			return f.what
		}
	}
	return ""
}
