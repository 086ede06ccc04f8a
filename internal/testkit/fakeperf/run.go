package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/simulate"
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
	stdout   *bufio.Writer
	stderr   io.Writer

	log     *ncclLog
	cluster simulate.Cluster
	tuner   *plugin
	noise   *simulate.Noise
	now     decision // for the size that is measured

	spent  float64 // microseconds that the GPUs would have worked
	wrong  int     // how many times had wrong results
	busBW  float64 // sum of all times' bandwidths
	halves int     // how many times there are, two a row
}

func (t *test) wait() {
	time.Sleep(time.Duration(t.settings.seconds * float64(time.Second))) // the start that it plays
}

// lead is the process of rank 0. An error is one of this program itself, not an imitated one.
func (t *test) lead() (code int, err error) {
	if err := t.settings.count(strings.Join(t.args, " ")); err != nil {
		return 0, err
	}
	t.noise = t.settings.newNoise()
	t.log = openLog(t.print, t.world.hosts[0])
	var end endError
	if err = t.run(); err != nil && !errors.As(err, &end) {
		return 0, err
	}
	code = int(end)
	if code == exitOK && t.wrong > 0 {
		code = exitWrong
		t.testFailure("common.cu:1478")
	}
	t.summary()
	return code, nil
}

// The cluster that is simulated, and the seconds that a start of nccl-tests would take there.
const (
	clusterSeed = 1
	startup     = 5
)

// summary says how long the run would take.
func (t *test) summary() {
	t.print("# simulated nccl-tests: this run would take %.4f s\n", startup+t.spent/1e6)
}

// endError is the exit code of a run that ends early. What there is to say of it is printed already.
type endError int

func (e endError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func (t *test) run() error {
	comm := nccl.Comm{Nodes: t.world.nodes(), Ranks: t.world.ranks()}
	if comm.Ranks < 2 {
		return errors.New("one rank alone is not imitated (needed: two, as by -g 2)")
	}
	var refused error
	variables, err := channels.VariablesFromEnv(os.Getenv, t.settings.nccl.Rules())
	if err != nil { // NCCL does not start with them
		refused, variables = err, channels.Variables{}
	}
	if t.cluster, err = newCluster(t.settings, t.coll, comm, variables); err != nil {
		return err
	}
	t.header()
	t.log.version(&t.settings)
	t.wait()
	t.log.environment(t.settings.effects)
	for _, e := range t.settings.effects {
		if e.factor == 0 && e.set() {
			return t.ncclFailure("init.cc:1937", invalidUsage, fmt.Sprintf("Invalid value %s for %s.", e.value, e.name))
		}
	}
	if refused != nil {
		return t.ncclFailure("graph/tuning.cc:119", invalidUsage, refused.Error())
	}
	var fails *tunerError
	if t.tuner, err = t.loadTuner(); errors.As(err, &fails) {
		return t.ncclFailure("init.cc:1937", internalError, fails.Error())
	}
	if err != nil {
		return err
	}
	if t.tuner != nil {
		defer t.tuner.library.Close()
	}
	t.log.info("INIT", "comm 0x1 rank 0 nRanks %d nNodes %d localRanks %d localRank 0 MNNVL 0", comm.Ranks,
		comm.Nodes, t.world.local*t.world.perRank)
	t.log.info("INIT",
		"%d coll channels, %d collnet channels, %d nvls channels, 32 p2p channels, 32 p2p channels per peer",
		t.cluster.Channels(nccl.AlgoRing), t.cluster.Channels(nccl.AlgoRing), t.cluster.Channels(nccl.AlgoNVLS))
	t.log.info("INIT",
		"ncclCommInitRankConfig comm 0x1 rank 0 nranks %d cudaDev 0 nvmlDev 0 busId 10000 commId 0x1 - Init COMPLETE",
		comm.Ranks)
	t.columns()
	if err := t.measure(); err != nil {
		return err
	}
	t.footer()
	return nil
}
