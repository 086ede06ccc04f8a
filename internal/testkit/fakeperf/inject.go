package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// ncclResult is one of NCCL's errors, in its words.
type ncclResult string

const (
	invalidUsage  ncclResult = "invalid usage (run with NCCL_DEBUG=WARN for details)"
	internalError ncclResult = "internal error - please report this issue to the NCCL developers"
	remoteError   ncclResult = "remote process exited or there was a network error"
)

// ncclFailure prints what nccl-tests prints if NCCL returns an error, and ends the run.
func (t *test) ncclFailure(place string, result ncclResult, why string) error {
	t.log.warn(place, "%s", why)
	t.print("%s: Test NCCL failure %s:%d '%s / %s'\n", t.world.hosts[0], "common.cu", 1000, result, why)
	t.testFailure("common.cu:1063", "common.cu:1478")
	return endError(exitNCCL)
}

// testFailure prints what nccl-tests prints wherever it returns an error.
func (t *test) testFailure(places ...string) {
	for _, place := range places {
		t.print(" .. %s pid %d: Test failure %s\n", t.world.hosts[0], os.Getpid(), place)
	}
}

// undecided fails as NCCL does if its tuner fails or if it has nothing to choose from (topoGetAlgoInfo in its
// src/enqueue.cc).
func (t *test) undecided(err error) error {
	var fails *tunerError
	switch {
	case errors.As(err, &fails):
		return t.ncclFailure("enqueue.cc:2125", internalError, fails.Error())
	case !errors.Is(err, errNone):
		return err
	}
	why := fmt.Sprintf("No algorithm/protocol available for function %s with datatype nccl%s.",
		nccl.Colls.Words[t.coll], dataTypes[t.dtype].nccl)
	result := internalError
	for _, name := range []string{"NCCL_ALGO", "NCCL_PROTO"} {
		if value := os.Getenv(name); value != "" {
			why, result = why+fmt.Sprintf(" %s was set to %s.", name, value), invalidUsage
		}
	}
	return t.ncclFailure("enqueue.cc:2058", result, why)
}

// inject makes a run fail in the middle of a row.
func (t *test) inject(what string) error {
	host := t.world.hosts[0]
	switch what {
	case failCrash:
		t.stdout.Reset(os.Stdout) // the rest of the line is lost
		t.summary()
		fmt.Fprintf(t.stderr, "[%s:%d] *** Process received signal ***\n[%s:%d] Signal: Segmentation fault (11)\n",
			host, os.Getpid(), host, os.Getpid())
		// A shell takes this process's place, since Go's runtime would handle the signal itself.
		return syscall.Exec("/bin/sh", []string{"sh", "-c", "ulimit -c 0; kill -SEGV $$"}, os.Environ())
	case failCUDA:
		t.print("\n%s: Test CUDA failure common.cu:612 'an illegal memory access was encountered'\n", host)
		t.testFailure("common.cu:676", "common.cu:1478")
		return endError(exitCUDA)
	case failHang:
		return t.hang()
	case failTruncated:
		t.print("     1") // and no more
		_ = t.stdout.Flush()
		return endError(exitOK)
	case failNodeLost:
		return t.ncclFailure("transport/net_ib/p2p.cc:100", remoteError,
			fmt.Sprintf("NET/IB: Got completion from peer %s<47000> with status=12",
				t.world.hosts[t.world.nodes()-1]))
	}
	return nil
}

// hang lasts until somebody kills the process: it ignores all gentler signals, as a child of it does.
func (t *test) hang() error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	// The child inherits what is ignored. It ends by itself, in case nobody kills it.
	if err := exec.Command("sleep", "600").Start(); err != nil {
		return err
	}
	fmt.Fprintln(t.stderr, "# simulated nccl-tests: hangs")
	select {}
}
