package trial

import (
	"fmt"
	"hash/fnv"
	"time"
)

// Side is one of the two versions that are compared.
type Side int8

// The sides.
const (
	A Side = iota
	B
)

func (s Side) String() string { return string("AB"[s]) }

// blocks divides time. It is equal on all communicators of a job that compare the same versions.
type blocks struct {
	length time.Duration
	seed   uint64 // see seedOf
}

// seedOf is the seed of a comparison of two versions, which their digests name.
func seedOf(a, b string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s", a, b)
	return h.Sum64()
}

// at returns the pair that a time belongs to, and the side that is to be in force then.
func (b blocks) at(t time.Time) (pair int64, side Side) {
	block := t.UnixNano() / int64(b.length)
	side = Side(mix(b.seed+uint64(block/2)) >> 63)
	if block%2 != 0 {
		side = 1 - side
	}
	return block / 2, side
}

// mix makes a draw of a number (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Blocks have few lengths: of two that follow each other, the ratio is 3/2 or 4/3. So communicators of a job that have
// measured slightly different steps still use the same.
const (
	shortest = 2 * time.Second
	longest  = 2048 * time.Second
)

// A block is made for so many steps at least. It has more where steps vary, until noise moves the mean of a block by
// no more than precision.
const (
	stepsInBlock = 15
	mostInBlock  = 100
	precision    = 0.01 // of a step
)

// inBlock is the time of the steps that a block is made for.
func inBlock(step time.Duration, noise float64) time.Duration {
	return time.Duration(min(max(stepsInBlock, noise*noise/(precision*precision)), mostInBlock) * float64(step))
}

// lengthFor returns how long blocks are where their steps take so long, and a change of the policy; 0 if that is too
// long. Communicators of a job do not change at the same moment, and while they have not, steps tell less of a
// difference than there is. So a change takes half a block at most.
func lengthFor(steps, change time.Duration) time.Duration {
	for length := shortest; length <= longest; length *= 2 {
		for _, l := range []time.Duration{length, length * 3 / 2} {
			if l >= max(steps, 2*change) && l <= longest {
				return l
			}
		}
	}
	return 0
}
