package simulate

import (
	"math"
	"math/bits"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// Truth is how long collectives really take on one communicator of a simulated
// cluster. It may be used by several goroutines.
type Truth struct {
	tuning *tuning.Tuning
	cells  map[cell]behavior
}

// cell is an algorithm with a protocol, run for one collective.
type cell struct {
	nccl.Coll
	nccl.Cell
}

// offered returns what NCCL offers for a collective: ring first, then the others in NCCL's order.
func offered(t *tuning.Tuning, coll nccl.Coll) (all []cell) {
	table := t.Table(coll, 1<<20, 1)
	var others []cell
	for a, p := range nccl.Cells {
		switch x := (cell{coll, nccl.Cell{Algo: a, Proto: p}}); {
		case table[a][p] < 0:
		case a == nccl.AlgoRing:
			all = append(all, x)
		default:
			others = append(others, x)
		}
	}
	return append(all, others...)
}

// behavior is how one cell behaves on this cluster, unknown to NCCL's model.
type behavior struct {
	latency   float64 // microseconds, of one channel at small sizes
	bandwidth float64 // GB/s, of unlimited channels
	perChan   float64 // GB/s of one channel
	limit     int     // channels there are

	growth     float64 // of the latency per further channel, as a part
	contention float64 // part of the bandwidth lost when all channels send to the NICs
	rendezvous float64 // part of the latency that large messages add
	steps      [2]step
}

// step adds a part of the latency from a size on.
type step struct {
	from  uint64
	extra float64
}

// NewTruth draws a cluster. Each seed is another one.
func NewTruth(t *tuning.Tuning, seed uint64) *Truth {
	truth := &Truth{t, map[cell]behavior{}}
	for coll := range nccl.Coll(nccl.NumColls) {
		for _, x := range offered(t, coll) {
			truth.cells[x] = truth.draw(x, seed)
		}
	}
	return truth
}

func (t *Truth) draw(x cell, seed uint64) behavior {
	nodes := t.tuning.Nodes
	d := newDraw(seed, aboutCell, int64(nodes), int64(t.tuning.Ranks), int64(x.Coll), int64(x.Algo), int64(x.Proto))
	m := behavior{limit: t.tuning.Channels(x.Algo)}
	m.latency = float64(t.tuning.Latencies[x.Coll][x.Algo][x.Proto]) * d.between(.7, 1.4)
	m.bandwidth = float64(t.tuning.Bandwidths[x.Coll][x.Algo][x.Proto])
	switch x.Proto {
	case nccl.ProtoLL:
		m.bandwidth *= d.between(.9, 2.2)
	case nccl.ProtoLL128:
		m.bandwidth *= d.between(.8, 1.2)
	default:
		m.bandwidth *= d.between(.75, 1.05)
	}
	// All channels together could move a little to much more than the links.
	m.perChan = m.bandwidth * d.between(1.15, 1.9) / float64(m.limit)
	m.growth = d.between(.001, .004) // launching blocks
	if nodes > 1 {
		m.growth = d.between(.004, .01)
		if x.Algo == nccl.AlgoRing { // every step of a ring waits for a NIC
			m.growth = d.between(.02, .04)
		}
		m.contention = d.between(.05, .12) * float64(1+bits.Len(uint(nodes))) / 3
		m.contention = min(m.contention, .3)
		m.rendezvous = d.between(.06, .16)
	}
	for i := range m.steps {
		m.steps[i] = step{1 << (12 + int(d.between(0, 10))), d.between(.02, .1)}
	}
	return m
}

// Sizes of NCCL's chunks in bytes: one of the 8 steps that a channel's default
// buffer is cut into, less the flags of LL and LL128 (NCCL 2.30.7, device.h and
// enqueue.cc).
var chunkBytes = [...]float64{
	nccl.ProtoLL:     32 << 10,
	nccl.ProtoLL128:  576000,
	nccl.ProtoSimple: 512 << 10,
}

const (
	// Least traffic for which NCCL uses one channel more: 512 bytes to 32 KiB,
	// depending on its release. AllReduce's bytes travel twice (enqueue.cc).
	trafficPerChannel = 16 << 10

	rendezvousBytes = 32 << 10 // message from which networks ask before they send; NICs have 8 to 64 KiB
	l2Bytes         = 32 << 20 // about half of Hopper's L2: a collective reads one buffer and writes another
	l2Penalty       = .04
	partialLoop     = .3 // cost of the empty part of a loop, as part of a full one
)

// busy is how many of its channels a collective uses. It is not rounded to whole channels, so that times do not fall
// where one is added.
func busy(coll nccl.Coll, channels int, bytes uint64) float64 {
	traffic := float64(bytes)
	if coll == nccl.CollAllReduce {
		traffic *= 2
	}
	return max(1, min(float64(channels), traffic/trafficPerChannel))
}

// Busy is the number of its channels that a collective uses. Truth.Micros is the time with that many.
func Busy(coll nccl.Coll, channels int, bytes uint64) int {
	return int(math.Ceil(busy(coll, channels, bytes)))
}

// Micros returns the time without noise; ok is false where NCCL does not offer
// the cell or has fewer channels. bytes is NCCL's nBytes, > 0.
func (t *Truth) Micros(coll nccl.Coll, c nccl.Config, bytes uint64) (us float64, ok bool) {
	m, ok := t.cells[cell{coll, c.Cell}]
	if !ok || c.Channels < 1 || c.Channels > m.limit {
		return 0, false
	}
	size := float64(bytes)
	nodes, ranks := t.tuning.Nodes, float64(t.tuning.Ranks)

	used := busy(coll, c.Channels, bytes)

	// The part of the data that is one rank's, in one channel.
	share := size / used
	if c.Algo != nccl.AlgoTree {
		share /= ranks
	}

	// Latency.
	more := m.growth * (used - 1)
	if nodes > 1 && min(share, chunkBytes[c.Proto]) > rendezvousBytes {
		more += m.rendezvous
	}
	for _, s := range m.steps {
		if bytes >= s.from {
			more += s.extra
		}
	}
	latency := m.latency * (1 + more)

	// Bandwidth.
	bw := softMin(m.bandwidth, m.perChan*used)
	if crowd := 2*used/float64(m.limit) - 1; crowd > 0 {
		bw *= 1 - m.contention*(crowd*crowd)
	}
	stream := size / bw / 1000
	loops := share / chunkBytes[c.Proto]
	slow := 1.0
	if loops > 1 {
		slow += partialLoop * (math.Ceil(loops) - loops) / loops
	}
	if c.Algo == nccl.AlgoTree {
		slow += 1 / (1 + loops)
	}
	if nodes == 1 && bytes > l2Bytes {
		slow += l2Penalty
	}
	return latency + stream*slow, true
}

// softMin is below both and near the smaller one: (a^-4 + b^-4)^(-1/4).
func softMin(a, b float64) float64 {
	low, high := min(a, b), max(a, b)
	r := low / high
	r = r * r
	r = r * r
	return low / math.Sqrt(math.Sqrt(1+r))
}
