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

// Blocks have few lengths, each twice the one before, so that communicators of a job that have
// measured slightly different steps still use the same.
const (
	shortest = 2 * time.Second
	longest  = 2048 * time.Second
)

// stepsInBlock is the least number of steps that a block is made for.
const stepsInBlock = 10

// lengthFor returns how long blocks are where a step takes so long, and a change of the policy; 0
// if a step takes too long.
func lengthFor(step, change time.Duration) time.Duration {
	for length := shortest; length <= longest; length *= 2 {
		if length >= max(stepsInBlock*step, 2*change) {
			return length
		}
	}
	return 0
}
