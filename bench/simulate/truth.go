package simulate

import (
	"math"
	"math/bits"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// Truth is how long collectives really take on one communicator of a simulated
// cluster. It may be used by several goroutines.
type Truth struct {
	costs costs
	cells map[cell]machine
}

// machine is how one cell behaves on this cluster, unknown to NCCL's model.
type machine struct {
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
func NewTruth(t *Tuning, seed uint64) *Truth {
	truth := &Truth{costs{t}, map[cell]machine{}}
	for _, coll := range colls() {
		for _, x := range truth.costs.cells(coll) {
			truth.cells[x] = truth.draw(x, seed)
		}
	}
	return truth
}

func (t *Truth) draw(x cell, seed uint64) machine {
	c := t.costs
	d := newDraw(seed, aboutCell, int64(c.nodes()), int64(c.ranks()), int64(x.coll), int64(x.algo), int64(x.proto))
	m := machine{limit: c.channels(x.algo)}
	m.latency = c.latency(x) * d.between(.7, 1.4)
	m.bandwidth = c.bandwidth(x)
	switch x.proto {
	case policy.ProtoLL:
		m.bandwidth *= d.between(.9, 2.2)
	case policy.ProtoLL128:
		m.bandwidth *= d.between(.8, 1.2)
	default:
		m.bandwidth *= d.between(.75, 1.05)
	}
	// All channels together could move a little to much more than the links.
	m.perChan = m.bandwidth * d.between(1.15, 1.9) / float64(m.limit)
	m.growth = d.between(.001, .004) // launching blocks
	if c.nodes() > 1 {
		m.growth = d.between(.004, .01)
		if x.algo == policy.AlgoRing { // every step of a ring waits for a NIC
			m.growth = d.between(.02, .04)
		}
		m.contention = d.between(.05, .12) * float64(1+bits.Len(uint(c.nodes()))) / 3
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
	policy.ProtoLL:     32 << 10,
	policy.ProtoLL128:  576000,
	policy.ProtoSimple: 512 << 10,
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

// Micros returns the time without noise; ok is false where NCCL does not offer
// the cell or has fewer channels. bytes is NCCL's nBytes, > 0.
func (t *Truth) Micros(coll policy.Coll, algo policy.Algo, proto policy.Proto, channels int, bytes uint64) (us float64, ok bool) {
	m, ok := t.cells[cell{coll, algo, proto}]
	if !ok || channels < 1 || channels > m.limit {
		return 0, false
	}
	size := float64(bytes)
	nodes, ranks := t.costs.nodes(), float64(t.costs.ranks())

	// Not rounded to whole channels, so that times do not fall where one is added.
	traffic := size
	if coll == policy.CollAllReduce {
		traffic = 2 * size
	}
	used := max(1, min(float64(channels), traffic/trafficPerChannel))

	// The part of the data that is one rank's, in one channel.
	share := size / used
	if algo != policy.AlgoTree {
		share /= ranks
	}

	// Latency.
	more := m.growth * (used - 1)
	if nodes > 1 && min(share, chunkBytes[proto]) > rendezvousBytes {
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
	loops := share / chunkBytes[proto]
	slow := 1.0
	if loops > 1 {
		slow += partialLoop * (math.Ceil(loops) - loops) / loops
	}
	if algo == policy.AlgoTree {
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
