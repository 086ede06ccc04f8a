package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/simulate"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
)

// test is one run, as the process of rank 0 sees it.
type test struct {
	program string
	coll    nccl.Coll
	args    []string
	options
	settings settings
	world    *world
	stdout   *lines
	stderr   io.Writer

	log       *ncclLog
	report    *report
	cluster   simulate.Cluster
	tuner     *plugin
	noise     *simulate.Noise
	decisions map[uint64]decision

	spent  float64 // microseconds that the GPUs would have worked
	wrong  int     // times with wrong results
	busBW  float64 // sum
	halves int     // that it is of
}

func (t *test) average() float64 { return t.busBW / float64(t.halves) }

// follow is what processes of other ranks do: they print nothing.
func (t *test) follow() int {
	t.wait()
	return exitOK
}

func (t *test) wait() { time.Sleep(time.Duration(t.settings.seconds * float64(time.Second))) }

// lead is the process of rank 0. An error is about the stand-in itself.
func (t *test) lead() (code int, err error) {
	if err := t.settings.count(strings.Join(t.args, " ")); err != nil {
		return 0, err
	}
	t.noise = simulate.NewNoise(t.settings.noise, t.settings.seed, t.settings.run())
	t.decisions = map[uint64]decision{}
	t.log = openLog(t.stdout, t.world.hosts[0])
	defer t.stdout.flush()
	t.report = t.openReport()
	err = t.run()
	var f *endError
	switch {
	case err == nil:
	case errors.As(err, &f):
		code = f.code
	default:
		return 0, err
	}
	t.report.close(f != nil && f.cut)
	if code == exitOK && t.wrong > 0 {
		code = exitWrong
		t.testFailure("common.cu:1478")
	}
	t.summary()
	return code, nil
}

// summary says how long the run would take.
func (t *test) summary() {
	t.print("# stand-in: this run would take %.4f s\n", t.settings.startup+t.spent/1e6)
}

// endError ends the run before its time; all that is to be said of it is printed.
type endError struct {
	code int
	cut  bool // the process died: the file of -J is not complete
}

func (e *endError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func (t *test) run() error {
	comm := nccl.Comm{Nodes: len(t.world.nodes), Ranks: t.world.ranks()}
	var refused error
	variables, err := channels.VariablesFromEnv(os.Getenv, t.settings.nccl.Rules())
	if err != nil { // NCCL does not start with them
		refused, variables = err, channels.Variables{}
	}
	if t.cluster, err = newCluster(t.settings, t.coll, comm, variables); err != nil {
		return err
	}
	t.header()
	t.report.begin(t)
	t.limitMemory()
	t.log.version(t.settings.nccl.String())
	t.wait()
	t.log.environment()
	if refused != nil {
		return t.ncclFailure("graph/tuning.cc:119", invalidUsage, refused.Error())
	}
	if comm.Ranks > 1 { // NCCL asks no tuner about a communicator of one
		var fails *tunerError
		if t.tuner, err = t.loadTuner(); errors.As(err, &fails) {
			return t.ncclFailure("init.cc:1937", internalError, fails.Error())
		}
		if err != nil {
			return err
		}
	}
	if t.tuner != nil {
		defer t.tuner.library.Close()
	}
	t.log.info(subsysINIT, "comm 0x1 rank 0 nRanks %d nNodes %d localRanks %d localRank 0 MNNVL 0", comm.Ranks,
		comm.Nodes, t.world.nodes[0]*t.world.perRank)
	t.log.info(subsysINIT,
		"%d coll channels, %d collnet channels, %d nvls channels, 32 p2p channels, 32 p2p channels per peer",
		t.cluster.Channels(nccl.AlgoRing), t.cluster.Channels(nccl.AlgoRing), t.cluster.Channels(nccl.AlgoNVLS))
	t.log.info(subsysINIT,
		"ncclCommInitRankConfig comm 0x1 rank 0 nranks %d cudaDev 0 nvmlDev 0 busId 10000 commId 0x1 - Init COMPLETE",
		comm.Ranks)
	t.columns()
	t.report.measure()
	if err := t.measure(); err != nil {
		return err
	}
	t.footer()
	t.report.footer(t)
	return nil
}

// limitMemory lowers the largest size as nccl-tests does on GPUs with 80 GB. It has three buffers, or two without -c.
func (t *test) limitMemory() {
	const left = 75 << 30
	most := uint64(left / 2)
	if t.check > 0 {
		most = left / 3
	}
	if t.maxBytes > most {
		t.maxBytes, t.minBytes = most, min(t.minBytes, most)
		t.print("#\n# Reducing maxBytes to %d due to memory limitation\n", most)
	}
}
