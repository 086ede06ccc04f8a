package main

import (
	"slices"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

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
func (t *test) decision(l line) (decision, error) {
	if d, ok := t.decisions[l.bytes]; ok {
		return d, nil
	}
	d, err := t.decide(l.bytes)
	if t.settings.starting(failUnsupport) ||
		slices.ContainsFunc(t.settings.fails, func(f failure) bool {
			return f.what == failUnsupport &&
				f.is(d.Config)
		}) {
		err = noneError{}
	}
	if err != nil {
		return d, t.undecided(err, l.dtype)
	}
	if t.settings.starting(failSlow) {
		d.micros *= 1.2
	}
	d.micros = t.settings.drifted(d.micros)
	t.decisions[l.bytes] = d
	return d, nil
}

// calls makes a number of calls. NCCL logs each of them, but no empty ones and none of a single rank.
func (t *test) calls(l line, times int) error {
	if l.bytes == 0 || t.world.ranks() == 1 {
		return nil
	}
	d, err := t.decision(l)
	if err != nil {
		return err
	}
	t.spent += float64(times) * d.micros
	part := l.count * typeSize[l.dtype]
	for range times {
		t.log.info(subsysTUNING, "%s: %d Bytes -> Algo %s proto %s channel{Lo..Hi}={0..%d}",
			nccl.Colls.Words[t.coll], part,
			strings.ToUpper(nccl.Algos.Apart[d.Algo]), strings.ToUpper(nccl.Protos.Words[d.Proto]),
			t.cluster.Busy(d.Config, l.bytes)-1)
	}
	return nil
}

// row measures a size out of place and in place.
func (t *test) row(l line, i, rows int) error {
	t.print("%12d  %12d  %8s  %6s  %6d", l.bytes, l.count, l.dtype, l.op, l.root)
	t.report.row(t, l)
	if err := t.calls(l, 0); err != nil { // of a size that there was no warm-up for, it decides
		return err
	}
	fails := t.settings.at(i, rows, t.decisions[l.bytes].Config)
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
