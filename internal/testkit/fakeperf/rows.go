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

// measure warms up at every doubling and then measures and prints the sizes.
func (t *test) measure() error {
	for size := t.minBytes; size <= t.maxBytes && size > 0; size *= 2 {
		if err := t.calls(t.lineFor(size), t.warmup); err != nil {
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
	for i, l := range lines {
		if err := t.row(l, i, len(lines)); err != nil {
			return err
		}
	}
	return nil
}

// launchMicros is the host's part of a call that is launched alone. A graph's launch takes as long as one call's, so a
// call in it has nearly none.
const launchMicros = 10

// decision asks once for each size.
func (t *test) decision(l line) (decision, error) {
	if d, ok := t.decisions[l.bytes]; ok {
		return d, nil
	}
	d, err := t.decide(l.bytes)
	if slices.ContainsFunc(t.settings.fails, func(f failure) bool {
		return f.what == failUnsupport && (f.is(d.Config) || f.isNow(t.settings.start))
	}) {
		err = errNone
	}
	if err != nil {
		return d, t.undecided(err)
	}
	d.micros = t.settings.drifted(d.micros)
	if t.graphs > 0 {
		d.micros = max(d.micros-launchMicros, d.micros/5)
	}
	t.decisions[l.bytes] = d
	return d, nil
}

// calls makes a number of calls. NCCL logs each of them, except empty ones.
func (t *test) calls(l line, times int) error {
	if l.bytes == 0 {
		return nil
	}
	d, err := t.decision(l)
	if err != nil {
		return err
	}
	t.spent += float64(times) * d.micros
	part := l.count * dataTypes[t.dtype].bytes
	for range times {
		t.log.info("TUNING", "%s: %d Bytes -> Algo %s proto %s channel{Lo..Hi}={0..%d}",
			nccl.Colls.Words[t.coll], part,
			strings.ToUpper(nccl.Algos.Apart[d.Algo]), strings.ToUpper(nccl.Protos.Words[d.Proto]),
			t.cluster.Busy(d.Config, l.bytes)-1)
	}
	return nil
}

// row measures a size out of place and in place.
func (t *test) row(l line, i, rows int) error {
	op, root := t.op, -1
	if t.coll == nccl.CollBroadcast || t.coll == nccl.CollAllGather {
		op = "none"
	}
	if t.coll == nccl.CollBroadcast || t.coll == nccl.CollReduce {
		root = 0
	}
	t.print("%12d  %12d  %8s  %6s  %6d", l.bytes, l.count, t.dtype, op, root)
	if err := t.calls(l, 0); err != nil { // a size without warm-up is decided here
		return err
	}
	fails := t.settings.at(i, rows, t.decisions[l.bytes].Config)
	for _, inPlace := range []bool{false, true} {
		// A call first, then those that are timed, then one to check the results.
		if err := t.calls(l, 1+t.iters+min(t.check, 1)); err != nil {
			return err
		}
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
		micros = t.decisions[l.bytes].micros
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
