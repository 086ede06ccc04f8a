package main

import (
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// line is what a row says before its times.
type line struct{ bytes, count uint64 }

// lineFor trims a size as nccl-tests does (getCollByteCount).
func (t *test) lineFor(size uint64) line {
	element, ranks := dataTypes[t.dtype].bytes, uint64(t.world.ranks())
	count := size / element
	if t.coll == nccl.CollAllGather || t.coll == nccl.CollReduceScatter {
		count = count / ranks / (16 / element) * (16 / element)
		return line{count * ranks * element, count}
	}
	return line{count * element, count}
}

// warmUps are the sizes that are called before the first is measured: all by doubling, or with rccl-tests, as with
// nccl-tests up to 2.16.7, the largest and the smallest.
func (t *test) warmUps() (sizes []uint64) {
	if t.settings.rccl {
		return []uint64{t.maxBytes, t.minBytes}
	}
	for size := t.minBytes; size <= t.maxBytes && size > 0; size *= 2 {
		sizes = append(sizes, size)
	}
	return sizes
}

// measure warms up, and then measures and prints all sizes in each cycle.
func (t *test) measure() error {
	for _, size := range t.warmUps() {
		if err := t.warmUp(t.lineFor(size)); err != nil {
			return err
		}
	}
	var lines []line
	for size := t.minBytes; size <= t.maxBytes; {
		lines = append(lines, t.lineFor(size))
		if size *= t.stepFactor; t.stepFactor <= 1 {
			size += t.stepBytes
		}
		if t.stepFactor <= 1 && t.stepBytes == 0 || size == 0 {
			break
		}
	}
	for cycle := range t.cycles {
		if cycle > 0 && t.settings.rccl {
			t.print("# Testing %d cycle.\n", cycle+1)
		}
		for i, l := range lines {
			if err := t.row(l, cycle*len(lines)+i, t.cycles*len(lines)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *test) warmUp(l line) error {
	if t.warmup == 0 {
		return nil
	}
	if err := t.decideFor(l); err != nil {
		return err
	}
	t.calls(l, t.warmup)
	return nil
}

// launchMicros is the host's part of a call that is launched alone. A graph's launch takes as long as one call's, so a
// call in it has nearly none.
const launchMicros = 10

// decideFor has NCCL decide for the calls of a size that follow. It asks the tuner once: of calls that are alike NCCL
// asks about each, and the answers are alike, too.
func (t *test) decideFor(l line) (err error) {
	t.now = decision{}
	if l.bytes == 0 {
		return nil
	}
	t.now, err = t.decide(l.bytes)
	if slices.ContainsFunc(t.settings.fails, func(f failure) bool {
		return f.what == failUnsupport && (f.is(t.now.Config) || f.isNow(t.settings.start))
	}) {
		err = errNone
	}
	if err != nil {
		return t.undecided(err)
	}
	t.now.micros = t.settings.changed(t.settings.drifted(t.now.micros), l.bytes)
	if t.graphs > 0 {
		t.now.micros = max(t.now.micros-launchMicros, t.now.micros/5)
	}
	return nil
}

// calls makes a number of calls. NCCL logs each of them, except empty ones.
func (t *test) calls(l line, times int) {
	if l.bytes == 0 {
		return
	}
	t.spent += float64(times) * t.now.micros
	part := l.count * dataTypes[t.dtype].bytes
	for range times {
		t.log.info("TUNING", "%s: %d Bytes -> Algo %s proto %s channel{Lo..Hi}={0..%d}",
			nccl.Colls.Words[t.coll], part,
			strings.ToUpper(nccl.Algos.Apart[t.now.Algo]), strings.ToUpper(nccl.Protos.Words[t.now.Proto]),
			t.cluster.Busy(t.now.Config, l.bytes)-1)
	}
}

// row measures a size out of place and in place. It is row i of all rows of the run.
func (t *test) row(l line, i, rows int) error {
	op, root := t.op, -1
	if t.coll == nccl.CollBroadcast || t.coll == nccl.CollAllGather {
		op = "none"
	}
	if t.coll == nccl.CollBroadcast || t.coll == nccl.CollReduce {
		root = 0
	}
	t.print("%12d  %12d  %8s  %6s  %6d", l.bytes, l.count, t.dtype, op, root)
	if err := t.decideFor(l); err != nil {
		return err
	}
	fails := t.settings.at(i, rows, t.now.Config)
	for _, inPlace := range []bool{false, true} {
		// A call first, then those that are timed, then one to check the results.
		t.calls(l, 1+t.iters+min(t.check, 1))
		wrong := 0
		if inPlace {
			if err := t.inject(fails); err != nil {
				return err
			}
		} else if fails == failWrong && t.check > 0 {
			wrong = int(l.count)
			t.wrong++
		}
		t.half(l, wrong, fails == failSlow)
	}
	t.print("\n")
	return nil
}

// half prints one of a row's two times, with its bandwidths.
func (t *test) half(l line, wrong int, slow bool) {
	micros := .4 // of a call that does nothing
	if l.bytes > 0 {
		micros = t.now.micros
	}
	if slow {
		micros *= 2
	}
	micros *= t.noise.Next(max(1, l.bytes))
	algBW := float64(l.bytes) / 1000 / micros
	busBW := algBW * t.coll.BusFactor(float64(t.world.ranks()))
	t.busBW += busBW
	t.halves++
	t.print("  %7s  %6s  %6s  ", printed(micros, 7), printed(algBW, 6), printed(busBW, 6))
	if t.check > 0 {
		t.print("%6.6g", float64(wrong))
	} else {
		t.print("   N/A")
	}
}
