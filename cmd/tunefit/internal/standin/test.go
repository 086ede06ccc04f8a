package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
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
	machine   machine
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
	if f == nil || !f.cut {
		t.report.close()
	}
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
	cut  bool // the file of -J stays as far as it came
}

func (e *endError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func (t *test) run() error {
	nodes, ranks := len(t.world.nodes), t.world.ranks()
	var refused error
	variables, err := channels.VariablesFromEnv(os.Getenv, t.settings.nccl.Rules())
	if err != nil { // NCCL does not start with them
		refused, variables = err, channels.Variables{}
	}
	if t.machine, err = newMachine(t.settings, t.coll, nodes, ranks, variables); err != nil {
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
	if ranks > 1 { // NCCL asks no tuner about a communicator of one
		var fails *initError
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
	t.log.info(subsysINIT, "comm 0x1 rank 0 nRanks %d nNodes %d localRanks %d localRank 0 MNNVL 0", ranks, nodes, t.world.nodes[0]*t.world.perRank)
	t.log.info(subsysINIT, "%d coll channels, %d collnet channels, %d nvls channels, 32 p2p channels, 32 p2p channels per peer",
		t.machine.most(nccl.AlgoRing), t.machine.most(nccl.AlgoRing), t.machine.most(nccl.AlgoNVLS))
	t.log.info(subsysINIT, "ncclCommInitRankConfig comm 0x1 rank 0 nranks %d cudaDev 0 nvmlDev 0 busId 10000 commId 0x1 - Init COMPLETE", ranks)
	t.columns()
	t.report.results()
	if err := t.measure(); err != nil {
		return err
	}
	t.footer()
	t.report.footer(t)
	return nil
}

// limitMemory lowers the largest size as nccl-tests does on GPUs with 80 GB, of which it needs three or two buffers.
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

// line is what a row says before its times.
type line struct {
	bytes, count uint64
	dtype, op    string
	root         int
}

// lineFor trims a size as nccl-tests does (getCollByteCount).
func (t *test) lineFor(size uint64, dtype, op string, root int) line {
	element, ranks := typeSize[dtype], uint64(t.world.ranks())
	count := size / element
	l := line{count * element, count, dtype, op, root}
	if t.coll == nccl.CollAllGather || t.coll == nccl.CollReduceScatter {
		l.count = count / ranks / (16 / element) * (16 / element)
		l.bytes = l.count * ranks * element
	}
	return l
}

// measure prints the rows of all types, operations and roots.
func (t *test) measure() error {
	ops, roots := t.ops, []int{-1}
	if t.coll == nccl.CollBroadcast || t.coll == nccl.CollAllGather {
		ops = []string{"none"}
	}
	if t.coll == nccl.CollBroadcast || t.coll == nccl.CollReduce {
		if roots = []int{t.root}; t.root == -1 {
			roots = nil
			for root := range t.world.ranks() {
				roots = append(roots, root)
			}
		}
	}
	for _, dtype := range t.types {
		for _, op := range ops {
			for _, root := range roots {
				if err := t.sweep(func(size uint64) line { return t.lineFor(size, dtype, op, root) }); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// sweep warms up at every doubling and then measures the sizes.
func (t *test) sweep(lineFor func(size uint64) line) error {
	for size := t.minBytes; size <= t.maxBytes && size > 0; size *= 2 {
		if err := t.calls(lineFor(size), t.warmup); err != nil {
			return err
		}
	}
	var lines []line
	for size := t.minBytes; size <= t.maxBytes; {
		lines = append(lines, lineFor(size))
		if size *= t.stepFactor; t.stepFactor <= 1 {
			size += t.stepBytes
		}
		if t.stepFactor <= 1 && t.stepBytes == 0 || size == 0 {
			break
		}
	}
	for range t.cycles {
		for i, l := range lines {
			if err := t.row(l, i, len(lines)); err != nil {
				return err
			}
		}
	}
	return nil
}

// decision asks once for each size.
func (t *test) decision(bytes uint64) (decision, error) {
	if d, ok := t.decisions[bytes]; ok {
		return d, nil
	}
	d, err := t.decide(bytes)
	if t.settings.starting(failUnsupport) || slices.ContainsFunc(t.settings.fails, func(f failure) bool { return f.what == failUnsupport && f.is(d.choice) }) {
		err = noneError{}
	}
	if err != nil {
		return d, t.noAlgorithm(err)
	}
	if t.settings.starting(failSlow) {
		d.micros *= 1.2
	}
	t.decisions[bytes] = d
	return d, nil
}

// calls makes a number of calls, of which NCCL logs each. Empty ones and those of one rank it leaves out.
func (t *test) calls(l line, times int) error {
	if l.bytes == 0 || t.world.ranks() == 1 {
		return nil
	}
	d, err := t.decision(l.bytes)
	if err != nil {
		return err
	}
	t.spent += float64(times) * d.micros
	part := l.count * typeSize[l.dtype]
	for range times {
		t.log.info(subsysTUNING, "%s: %d Bytes -> Algo %s proto %s channel{Lo..Hi}={0..%d}", nccl.Colls.Words[t.coll], part,
			logWord(nccl.Algos.Apart[d.algo]), strings.ToUpper(nccl.Protos.Words[d.proto]), t.machine.busy(d.choice, l.bytes)-1)
	}
	return nil
}

// logWord is an algorithm as NCCL's log has it: COLLNET_DIRECT, NVLS_TREE.
func logWord(name string) string { return strings.ToUpper(name) }

// row measures a size out of place and in place.
func (t *test) row(l line, i, rows int) error {
	t.print("%12d  %12d  %8s  %6s  %6d", l.bytes, l.count, l.dtype, l.op, l.root)
	t.report.row(l)
	fails := t.settings.at(i, rows, t.decisions[l.bytes].choice)
	for _, inPlace := range []bool{false, true} {
		// A call first, then those that are timed, then one to check the results.
		if err := t.calls(l, 1+t.iters*t.aggregated*max(1, t.graphs)+min(t.check, 1)); err != nil {
			return err
		}
		h := t.time(l)
		if inPlace {
			if err := t.inject(fails); err != nil {
				return err
			}
		} else if fails == failWrong && t.check > 0 {
			h.wrong = int(l.count)
			t.wrong++
		}
		t.printHalf(h)
		if inPlace && t.timestamps != 0 {
			t.print("%21s", time.Now().Format(time.DateTime))
		}
		t.report.half(t, inPlace, h)
		t.busBW += h.busBW
		t.halves++
	}
	t.print("\n")
	t.report.endRow(t)
	return nil
}

// time is what is printed for one operation.
func (t *test) time(l line) (h half) {
	ranks := t.world.ranks()
	switch {
	case l.bytes == 0:
		h.micros = .4 // of a call that does nothing
	case ranks == 1:
		h.micros = 2 + float64(l.bytes)/1e6 // a copy
	default:
		h.micros = t.decisions[l.bytes].micros
	}
	h.micros *= t.noise.Next(max(1, l.bytes))
	h.algBW = float64(l.bytes) / 1000 / h.micros
	h.busBW = h.algBW * t.coll.BusFactor(float64(ranks))
	return h
}
