package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// ncclResult is one of NCCL's errors, in its words.
type ncclResult string

const (
	invalidUsage  ncclResult = "invalid usage (run with NCCL_DEBUG=WARN for details)"
	internalError ncclResult = "internal error - please report this issue to the NCCL developers"
	remoteError   ncclResult = "remote process exited or there was a network error"
)

// ncclFailure is how nccl-tests ends where NCCL returns an error.
func (t *test) ncclFailure(place string, result ncclResult, why string) error {
	t.log.warn(place, "%s", why)
	t.print("%s: Test NCCL failure %s:%d '%s / %s'\n", t.world.hosts[0], "common.cu", 1000, result, why)
	t.testFailure("common.cu:1063", "common.cu:1478")
	return &endError{code: exitNCCL}
}

// testFailure is what nccl-tests prints at every place that it returns an error from.
func (t *test) testFailure(places ...string) {
	for _, place := range places {
		t.print(" .. %s pid %d: Test failure %s\n", t.world.hosts[0], os.Getpid(), place)
	}
}

// undecided is how NCCL fails that its tuner fails or that has nothing to choose from (topoGetAlgoInfo in its
// src/enqueue.cc).
func (t *test) undecided(err error, dtype string) error {
	var fails *tunerError
	switch {
	case errors.As(err, &fails):
		return t.ncclFailure("enqueue.cc:2125", internalError, fails.Error())
	case !errors.As(err, &noneError{}):
		return err
	}
	dtype = cmp.Or(typeName[dtype], dtype)
	why := fmt.Sprintf("No algorithm/protocol available for function %s with datatype nccl%s.",
		nccl.Colls.Words[t.coll], strings.ToUpper(dtype[:1])+dtype[1:])
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
		t.stdout.rest = nil
		t.summary()
		t.report.close(true)
		fmt.Fprintf(t.stderr, "[%s:%d] *** Process received signal ***\n[%s:%d] Signal: Segmentation fault (11)\n",
			host, os.Getpid(), host, os.Getpid())
		return dieOf("SEGV")
	case failCUDA:
		t.print("\n%s: Test CUDA failure common.cu:612 'an illegal memory access was encountered'\n", host)
		t.testFailure("common.cu:676", "common.cu:1478")
		return &endError{code: exitCUDA}
	case failHang, failHangChild:
		return t.hang(what == failHangChild)
	case failTruncated:
		t.print("     1") // and no more
		t.stdout.flush()
		return &endError{code: exitOK, cut: true}
	case failNodeLost:
		return t.loseNode()
	}
	return nil
}

// dieOf replaces this process by a shell that ends by a signal: Go's runtime would take some for its own.
func dieOf(name string) error {
	return syscall.Exec("/bin/sh", []string{"sh", "-c", "ulimit -c 0; kill -" + name + " $$"}, os.Environ())
}

// hang lasts until somebody ends it, or for as long as -T says.
func (t *test) hang(stubborn bool) error {
	if stubborn {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		// A child process inherits what is ignored. It ends at last, should nobody find it.
		if err := exec.Command("sleep", "600").Start(); err != nil {
			return err
		}
	}
	fmt.Fprintln(t.stderr, "# stand-in: hangs")
	if t.timeout == 0 {
		time.Sleep(math.MaxInt64)
	}
	time.Sleep(time.Duration(t.timeout) * time.Second)
	t.print("%s: Test timeout (%ds) common.cu:495\n", t.world.hosts[0], t.timeout)
	t.testFailure("common.cu:676", "common.cu:1478")
	return &endError{code: exitTimeout}
}

// loseNode says that the last node is gone, as what has started the processes does, and without that, NCCL.
func (t *test) loseNode() error {
	first, last := t.world.hosts[0], t.world.hosts[len(t.world.nodes)-1]
	switch {
	case t.world.slurm:
		step := os.Getenv("SLURM_JOB_ID") + "." + os.Getenv("SLURM_STEP_ID")
		fmt.Fprintf(t.stderr,
			"srun: error: Node failure on %s\nslurmstepd: error: *** STEP %s ON %s CANCELLED AT %s DUE TO NODE "+
				"FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n",
			last, step, first, time.Now().Format("2006-01-02T15:04:05"))
	case t.world.openMPI:
		name := "prterun-" + first + "-" + strconv.Itoa(os.Getppid())
		line := strings.Repeat("-", 74)
		fmt.Fprintf(t.stderr,
			"%s\nPRTE has lost communication with a remote daemon.\n\n  HNP daemon   : [%s@0,0] on node %s\n  Remote "+
				"daemon: [%s@0,%d] on node %s\n%s\n",
			line, name, first, name, len(t.world.nodes)-1, last, line)
	default:
		return t.ncclFailure("transport/net_ib/p2p.cc:100", remoteError,
			fmt.Sprintf("NET/IB: Got completion from peer %s<47000> with status=12", last))
	}
	t.stdout.rest = nil // they kill the process
	return &endError{code: 1, cut: true}
}
