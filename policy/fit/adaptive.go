package fit

import (
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Space is what may be measured on one communicator.
type Space struct {
	Key
	Sizes    []uint64 // ascending
	Families []FamilyKey
	Channels []int // counts to try, ascending
	// Failed are configurations that were tried in vain: NCCL does not have them
	// here.
	Failed []Config
}

// Run is one start of nccl-tests: one configuration over a range of sizes.
type Run struct {
	Default bool // what the library chooses by itself; Config means nothing
	Config  Config
	Sizes   []uint64 // ascending, all of the space's from the first to the last
}

// Stage says how far an adaptive sweep is.
type Stage int

const (
	StageDefault   Stage = iota // the default comes first: everything is compared with it
	StageFirst                  // all families with most channels, at all sizes
	StageFewer                  // fewer channels, where that may be faster
	StageStopped                // fewer channels gained nothing: the rest is not worth its time
	StageExhausted              // everything that may be faster was measured
)

// Next is what to measure next.
type Next struct {
	Stage    Stage
	Channels int   // of the runs, in StageFirst and StageFewer
	Runs     []Run // empty once the sweep is over
	// Edge is a channel count that wins somewhere and is the largest or smallest
	// there is to try: the range may be too narrow. 0: none.
	Edge int
}

// sigmasOfHope: a configuration is measured where it would be the fastest if it
// took so many standard deviations less than expected.
const sigmasOfHope = 1.5

// Next decides by what was measured so far; nil: nothing. It depends on nothing
// else, so that a sweep can be interrupted and goes on where it was.
//
// Many channels come first: they are the quick ones to measure, and time falls
// and rises again with their number, so that a level without any gain ends it.
// Ascending, the slowest runs come first and the rule stops too early.
func (s Space) Next(g *Group) Next {
	if g == nil {
		g = &Group{Key: s.Key, Noise: assumedNoise}
	}
	if len(g.Default) == 0 {
		return Next{Stage: StageDefault, Runs: []Run{{Default: true, Sizes: s.Sizes}}}
	}
	best := map[uint64]float64{} // of more channels than the level
	for k := len(s.Channels) - 1; k >= 0; k-- {
		level := s.Channels[k]
		first := k == len(s.Channels)-1
		n := Next{Stage: StageFewer, Channels: level}
		if first {
			n.Stage = StageFirst
		}
		gained := false
		for _, f := range s.Families {
			c := s.config(f, level)
			if c.Channels == 0 && !first || slices.Contains(s.Failed, c) {
				continue
			}
			cells := g.cellsOf(c)
			if len(cells) == 0 {
				if sizes := s.hopeful(g, c, best, first); len(sizes) > 0 {
					n.Runs = append(n.Runs, Run{Config: c, Sizes: sizes})
				}
			}
			for _, cell := range cells {
				if us, ok := best[cell.Bytes]; ok && math.Log(us/cell.Micros) > max(leastImprovement, g.Noise) {
					gained = true
				}
			}
		}
		switch {
		case len(n.Runs) > 0:
			return n
		case !first && !gained:
			return Next{Stage: StageStopped, Edge: s.edge(g)}
		}
		for _, c := range g.Cells {
			if c.Config.Channels == level || c.Config.Channels == 0 {
				if us, ok := best[c.Bytes]; !ok || c.Micros < us {
					best[c.Bytes] = c.Micros
				}
			}
		}
	}
	return Next{Stage: StageExhausted, Edge: s.edge(g)}
}

// leastImprovement in ln(us): a level of channels that improves no size by more
// is the last.
const leastImprovement = 0.01

// config is a family with a channel count, or with NCCL's own where that is not
// to be set.
func (s Space) config(f FamilyKey, channels int) Config {
	if !nccl.ChannelsCanBeSet(f.Algo, s.Nodes) {
		channels = 0
	}
	return Config{f, channels}
}

func (g *Group) cellsOf(c Config) []Cell {
	i, _ := slices.BinarySearchFunc(g.Cells, Cell{Config: c}, Cell.compare)
	j := i
	for j < len(g.Cells) && g.Cells[j].Config == c {
		j++
	}
	return g.Cells[i:j]
}

// hopeful lists the sizes from the first to the last at which a configuration may
// be the fastest.
func (s Space) hopeful(g *Group, c Config, best map[uint64]float64, first bool) []uint64 {
	if first {
		return s.Sizes
	}
	var cells []Cell
	for _, f := range g.families() {
		if f[0].Config.FamilyKey == c.FamilyKey && f[0].Config.Channels > 0 {
			cells = f
		}
	}
	if len(cells) < fewPoints {
		return s.Sizes // too little to tell
	}
	j := g.fitJoint(cells, &layouts{})
	means, sigmas := j.predict(c.Channels, s.Sizes)
	from, to := -1, -1
	for i, b := range s.Sizes {
		us, ok := best[b]
		if !ok || means[i]-sigmasOfHope*sigmas[i]*j.caution() < math.Log(us)-max(leastImprovement, g.Noise) {
			if from < 0 {
				from = i
			}
			to = i
		}
	}
	if from < 0 {
		return nil
	}
	return s.Sizes[from : to+1]
}

// edge is a channel count at an end of those to try that wins most sizes, if it
// wins any.
func (s Space) edge(g *Group) int {
	wins := map[int]int{}
	_, fastest := g.winners()
	for _, c := range fastest {
		wins[c.Config.Channels]++
	}
	low, high := s.Channels[0], s.Channels[len(s.Channels)-1]
	switch {
	case low == high:
	case high < nccl.MaxChannels && wins[high] > 0:
		return high
	case low > 1 && wins[low] > 0:
		return low
	}
	return 0
}
