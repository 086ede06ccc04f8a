package fit

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// Pool collects samples, one at a time, in memory that grows with the number of
// samples by a few bytes each.
type Pool struct {
	groups    map[Key]*pooling
	refused   map[string]int
	rows      int
	simulated int
}

// Reasons to refuse a sample. Each is the whole text that a user reads.
const (
	RefusedTime      = "time is not a positive number"
	RefusedSize      = "size is 0"
	RefusedComm      = "number of nodes or ranks is not known"
	RefusedLabel     = "algorithm or protocol is not known"
	RefusedChannels  = "channel count is not 1 to 64"
	RefusedVariant   = "other data type, reduction or placement than most of its group"
	RefusedColl      = "not a collective that tuners are asked about"
	RefusedOneRank   = "1 rank communicates with nobody"
	maxChannels      = 64 // of NCCL
	probableNoiseMax = 0.5
)

// pooling is a group while samples arrive.
type pooling struct {
	variants map[variant]*variantPool
}

// variant is what NCCL does not tell a tuner. Times of different variants are
// not repetitions of one another.
type variant struct {
	dtype, redop string
	inPlace      bool
}

type variantPool struct {
	cells map[cellKey][]float64
	rows  int
}

type cellKey struct {
	config    Config
	bytes     uint64
	byDefault bool
}

// NewPool returns an empty pool.
func NewPool() *Pool { return &Pool{groups: map[Key]*pooling{}, refused: map[string]int{}} }

// Add takes a sample or counts why it does not.
func (p *Pool) Add(s *bench.Sample) {
	p.rows++
	byDefault := s.Selection == bench.SelectionDefault ||
		s.Selection == bench.SelectionUnknown && s.Algo == bench.Unknown && s.Proto == bench.Unknown
	config := Config{FamilyKey{s.Algo, s.Proto}, s.Channels}
	labelled := s.Algo >= 0 && s.Proto >= 0
	switch {
	case s.Coll < 0 || s.Coll >= policy.NumColls:
		p.refused[RefusedColl]++
		return
	case !(s.Micros > 0) || math.IsInf(s.Micros, 0):
		p.refused[RefusedTime]++
		return
	case s.Bytes == 0:
		p.refused[RefusedSize]++
		return
	case s.Nodes < 1 || s.Ranks < 1 || s.Ranks < s.Nodes:
		p.refused[RefusedComm]++
		return
	case s.Ranks == 1:
		p.refused[RefusedOneRank]++
		return
	case !labelled && !byDefault:
		p.refused[RefusedLabel]++
		return
	case s.Channels < 0 || s.Channels > maxChannels:
		p.refused[RefusedChannels]++
		return
	}
	if !labelled {
		config = unknownConfig
	}
	if s.Simulated {
		p.simulated++
	}
	key := Key{s.Coll, s.Nodes, s.Ranks}
	g := p.groups[key]
	if g == nil {
		g = &pooling{map[variant]*variantPool{}}
		p.groups[key] = g
	}
	v := variant{s.DType, s.RedOp, s.InPlace}
	vp := g.variants[v]
	if vp == nil {
		vp = &variantPool{cells: map[cellKey][]float64{}}
		g.variants[v] = vp
	}
	vp.rows++
	ck := cellKey{config, s.Bytes, byDefault}
	vp.cells[ck] = append(vp.cells[ck], s.Micros)
}

// Set is what a pool held: groups ready to be fitted.
type Set struct {
	Groups    []*Group // ordered by key
	Rows      int      // samples offered
	Used      int      // of which are in Groups
	Simulated int      // of the accepted, made up rather than measured
	Refused   []Refusal
}

// Refusal counts samples that were not used.
type Refusal struct {
	Reason string
	Rows   int
}

// Set pools repetitions and looks for outliers and twins. The pool may go on
// taking samples.
func (p *Pool) Set() *Set {
	s := &Set{Rows: p.rows, Simulated: p.simulated}
	refused := map[string]int{}
	for reason, n := range p.refused {
		refused[reason] = n
	}
	var pools []*variantPool
	for key, g := range p.groups {
		most := g.mainVariant()
		for v, vp := range g.variants {
			if v != most {
				refused[RefusedVariant] += vp.rows
			}
		}
		s.Used += g.variants[most].rows
		s.Groups = append(s.Groups, &Group{Key: key})
		pools = append(pools, g.variants[most])
	}
	each(len(pools), nil, func(i int) { pools[i].fill(s.Groups[i]) })
	slices.SortFunc(s.Groups, func(a, b *Group) int { return a.compare(b.Key) })
	for reason, n := range refused {
		s.Refused = append(s.Refused, Refusal{reason, n})
	}
	slices.SortFunc(s.Refused, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Reason, b.Reason))
	})
	return s
}

// mainVariant is the one with the most cells; of equals the one with most rows,
// then the first in order.
func (g *pooling) mainVariant() variant {
	var all []variant
	for v := range g.variants {
		all = append(all, v)
	}
	return slices.MinFunc(all, func(a, b variant) int {
		x, y := g.variants[a], g.variants[b]
		return cmp.Or(cmp.Compare(len(y.cells), len(x.cells)), cmp.Compare(y.rows, x.rows),
			cmp.Compare(a.dtype, b.dtype), cmp.Compare(a.redop, b.redop), boolToInt(a.inPlace)-boolToInt(b.inPlace))
	})
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fill makes a group of what was pooled.
func (vp *variantPool) fill(g *Group) {
	defaults := map[uint64][]Cell{}
	order := make([]cellKey, 0, len(vp.cells))
	for k := range vp.cells {
		order = append(order, k)
	}
	slices.SortFunc(order, func(a, b cellKey) int {
		return cmp.Or(a.config.compare(b.config), cmp.Compare(a.bytes, b.bytes), boolToInt(a.byDefault)-boolToInt(b.byDefault))
	})
	var spread []float64
	for _, k := range order {
		times := vp.cells[k]
		for i := 1; i < len(times); i++ {
			spread = append(spread, math.Abs(math.Log(times[i]/times[i-1])))
		}
		c := Cell{Config: k.config, Bytes: k.bytes, Micros: medianOf(times), Reps: len(times)}
		if k.byDefault {
			defaults[k.bytes] = append(defaults[k.bytes], c)
		} else {
			g.Cells = append(g.Cells, c)
		}
	}
	g.Noise = assumedNoise
	if g.NoisePairs = len(spread); len(spread) >= fewPairs {
		// A difference of two has sqrt(2) of one value's deviation; the median
		// of its absolute value is 0.6745 of that.
		g.Noise = min(max(median(spread)/0.6745/math.Sqrt2, leastNoise), probableNoiseMax)
	} else {
		g.NoisePairs = 0
	}
	for _, cells := range defaults {
		g.Default = append(g.Default, mostMeasured(cells))
	}
	slices.SortFunc(g.Default, func(a, b Cell) int { return cmp.Compare(a.Bytes, b.Bytes) })
	g.flagOutliers()
	g.findTwins()
}

// mostMeasured picks one label where the default was seen with several, as
// happens between versions of the library.
func mostMeasured(cells []Cell) Cell {
	return slices.MinFunc(cells, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(b.Reps, a.Reps), b.Config.compare(a.Config))
	})
}
