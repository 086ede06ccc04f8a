package channels

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Speeds per channel in GB/s that NCCL tries, fastest first, inside a node and over the network, by GPU generation.
// Source: graph/search.cc of NCCL 2.30.7 and of the releases at which those of Blackwell changed.
var (
	speedsIntra          = []float32{40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3}
	speedsInter          = []float32{48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, .24, .12}
	speedsIntraHopper    = []float32{60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3}
	speedsInterHopper    = []float32{48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, .24, .12}
	speedsIntraBlackwell = []sinceSpeed{{90, 0}, {80, 0}, {70, 0}, {60, 0}, {50, 0}, {45, 22902}, {40, 0},
		{30, 0}, {24, 0}, {20, 0}, {19, 0}, {18, 22703}}
	speedsInterBlackwell = []sinceSpeed{{96, 22707}, {86, 23003},
		{80, 22907}, {48, 0}, {45.1, 22703}, {45, -22703}, {42, 0}, {40, 0}, {30, 0},
		{24, 0}, {22, 0}, {20, 0}, {17.5, 0}, {15, 0}, {12, 0}, {6, 0}, {3, 0}, {2.4, 0}, {1.2, 0}, {.24, 0}, {.12, 0}}
)

// sinceSpeed is a speed, and the releases that try it: all (0), those from a release on (positive), or those before
// it (negative).
type sinceSpeed struct {
	speed float32
	since nccl.Change
}

func speedsOf(table []sinceSpeed, version nccl.Version) (speeds []float32) {
	for _, s := range table {
		if s.since >= 0 && version.Has(s.since) || s.since < 0 && !version.Has(-s.since) {
			speeds = append(speeds, s.speed)
		}
	}
	return speeds
}

func (m *system) speeds() []float32 {
	blackwell := m.minCC >= 100 && m.NCCL.Has(nccl.BlackwellSpeeds)
	switch {
	case blackwell && m.Inter:
		return speedsOf(speedsInterBlackwell, m.NCCL)
	case blackwell:
		return speedsOf(speedsIntraBlackwell, m.NCCL)
	case m.minCC >= 90 && m.Inter:
		return speedsInterHopper
	case m.minCC >= 90:
		return speedsIntraHopper
	case m.Inter:
		return speedsInter
	}
	return speedsIntra
}

// A search finds one graph. Each attempt is a walk under the limits of try, and best keeps the best solution
// of all. The first pass starts from the strictest limits and relaxes them one by one until there is a solution. The
// second pass keeps that number of channels and raises their speed.
type search struct {
	*system
	try  *Graph // limits of the next attempt, and the solution that its walk is at
	best *Graph

	speed                []float32
	at                   int           // index into speed of the next attempt's
	same                 bool          // the first attempt wants all channels alike (Graph.same)
	crossNIC             int           // NCCL's number: 0 no, 1 always, 2 if nothing else works
	typeIntra, typeInter topo.PathType // best types to start with
	maxIntra, maxInter   topo.PathType // worst types to go to
	stepsLeft            int           // for all attempts together; below 0 the first pass ends with what it has
	steps                int           // left of the walk's; -1 once a perfect solution is found
}

// search finds the channels for the pattern that graph asks for. The graph must be new. It fails where NCCL cannot
// create the communicator.
func (m *system) search(graph *Graph) error {
	gpus := len(m.gpus)
	s := search{system: m, best: graph, speed: m.speeds(), stepsLeft: searchStepsAll}
	if len(m.nets) > 1 && (graph.Pattern == PatternRing || graph.Pattern == PatternBalancedTree) {
		s.crossNIC = [...]int{topo.ToggleAuto: 2, topo.ToggleOff: 0, topo.ToggleOn: 1}[m.crossNIC]
	}
	if s.crossNIC == 1 {
		graph.CrossNIC = 1
	}
	s.limits()
	graph.TypeIntra, graph.TypeInter = s.typeIntra, s.typeInter
	s.same = graph.Pattern != PatternNVLS
	graph.same = s.same

	switch graph.Pattern {
	case PatternNVLS:
		if !s.hasNVS() || s.minCC < 90 {
			return nil
		}
		graph.MaxChannels = min(nccl.MaxNVLSRanks, gpus)
	case PatternCollNetDirect:
		graph.MaxChannels = min(nccl.MaxDirectRanks, gpus)
	}
	if gpus == 1 && graph.Pattern != PatternRing {
		graph.Pattern = PatternTree
	}
	if !s.Inter && graph.Pattern == PatternNVLS {
		graph.MinChannels = graph.MaxChannels // each GPU heads a channel, so that all carry the same load
	}
	if graph.Pattern == PatternRing && graph.MaxChannels >= 2 && graph.MinChannels == 1 &&
		s.NCCL.Has(nccl.TwoRingsAcrossSockets) && s.splitNVLink() {
		graph.MinChannels = 2 // for the tree, which is better there with two channels and has as many as the ring
	}

	s.try = newGraph(graph.ID, graph.Pattern, gpus, 0, 0)
	s.try.copyFrom(graph)
	s.at = s.fastest(s.try.MinChannels)
	s.setSpeed()
	s.firstPass()
	s.secondPass()
	if graph.NChannels == 0 && !graph.collNet && graph.Pattern != PatternNVLS {
		return s.simpleOrder(graph)
	}
	return nil
}

// limits sets the range of path types to try.
func (s *search) limits() {
	s.typeIntra, s.typeInter = topo.PathLOC, topo.PathPIX
	s.maxIntra, s.maxInter = topo.PathSYS, topo.PathSYS
	if !s.NCCL.Has(nccl.PathRange) {
		if len(s.gpus) > 1 {
			s.typeIntra = topo.PathNVL
		}
		return
	}
	if len(s.gpus) > 1 {
		s.typeIntra, s.maxIntra = s.pathRange(s.gpus, s.gpus)
	}
	if s.Inter {
		s.typeInter, s.maxInter = s.pathRange(s.gpus, s.nets)
		s.maxIntra = s.maxInter
	}
	if s.minCC < 90 && s.NCCL.Has(nccl.FarNICsBeforeHopper) {
		s.maxInter = topo.PathSYS // a balanced tree returns to the NIC from two GPUs, of which one may be far from it
	}
}

// fastest returns the index of the fastest speed that the hardware could reach with that many channels.
func (s *search) fastest(channels int) int {
	total := s.totalBW
	devs := len(s.Nodes[topo.NodeDEV])
	if devs > 1 && s.best.Pattern != PatternRing {
		// Other patterns need one hop less than a ring, which returns to its first GPU.
		total = float32(float64(total) * (float64(devs) / float64(devs-1)))
	}
	i := 0
	for i < len(s.speed)-1 && (s.speed[i] > s.maxBW || s.speed[i]*float32(channels) > total) {
		i++
	}
	return i
}

func (s *search) setSpeed() { s.try.BWIntra, s.try.BWInter = s.speed[s.at], s.speed[s.at] }

// attempt walks once. perfect says that no other walk could do better. steps is what the walk left of its own steps,
// -1 if it reached the maximum number of channels.
func (s *search) attempt() (perfect bool, steps int) {
	s.steps = searchSteps
	if s.try.same {
		s.steps = searchStepsSame
	}
	s.try.NChannels = 0
	s.stepsLeft -= s.steps
	s.nextChannel()
	return s.steps == -1 || float32(s.best.NChannels)*s.best.BWInter >= s.totalBW, s.steps
}

func (s *search) firstPass() {
	for {
		perfect, steps := s.attempt()
		if perfect || !s.relax(steps) {
			return
		}
	}
}

// relax changes the limits for the next attempt: it loosens the first limit that can still be loosened, in NCCL's
// order, and sets those before it back. It reports false when there is nothing left to try. steps is what the last
// attempt left of its steps.
func (s *search) relax(steps int) bool {
	t, best := s.try, s.best
	viaAMD := s.cpu.Arch == topo.ArchX86 && s.cpu.Vendor == topo.VendorAMD && t.TypeIntra == topo.PathSYS
	if t.same && !viaAMD { // between AMD CPUs NCCL does not try channels that differ
		t.same = false
		return true
	}
	t.same = s.same

	s.stepsLeft += steps
	if s.stepsLeft < 0 && best.NChannels > 0 {
		return false // a solution is enough: other limits would take too long
	}
	if s.minCC >= 90 && t.Pattern == PatternBalancedTree {
		t.Pattern = PatternTree
		return true
	}
	t.Pattern = best.Pattern

	worstIntra := s.maxIntra
	if s.Inter {
		worstIntra = t.TypeInter
	}
	if t.TypeIntra < worstIntra && (best.NChannels == 0 || t.TypeIntra < best.TypeIntra) {
		t.TypeIntra++
		if t.TypeIntra < topo.PathDIS {
			return true
		}
	}
	t.TypeIntra = s.typeIntra

	if s.Inter && t.TypeInter < s.maxInter &&
		(best.NChannels == 0 || t.TypeInter < best.TypeInter || t.TypeInter < topo.PathPXN) {
		t.TypeInter++
		if t.TypeInter < topo.PathDIS {
			return true
		}
	}
	t.TypeInter = s.typeInter

	mayCross := best.Pattern == PatternRing || best.Pattern == PatternBalancedTree || !s.NCCL.Has(nccl.CrossedRings)
	if s.crossNIC == 2 && t.CrossNIC == 0 && mayCross {
		t.CrossNIC = 2
		return true
	}
	t.CrossNIC = s.crossNIC % 2

	if s.at < len(s.speed)-1 && (best.NChannels == 0 || float64(s.speed[s.at+1]/best.BWInter) > .49) {
		s.at++
		s.setSpeed()
		return true
	}
	return false
}

// secondPass raises the speed of the solution for as long as that works.
func (s *search) secondPass() {
	best := s.best
	best.duplicate(s.minCC)
	s.try.copyFrom(best)
	s.at = 0
	for s.at < len(s.speed)-1 && s.speed[s.at] > best.BWInter {
		s.at++
	}
	s.setSpeed()
	s.try.MinChannels = best.NChannels // more speed must not cost channels
	for steps := -1; steps != 0 && s.at > 0; {
		t := s.try
		switch {
		case best.Pattern == PatternRing:
			s.at--
			s.setSpeed()
		case best.Pattern == PatternNVLS && t.BWInter == best.BWInter && t.BWInter < t.BWIntra*2:
			t.MinChannels, t.MaxChannels = best.NChannels, best.NChannels
			s.at--
			t.BWInter = s.speed[s.at]
		case t.BWIntra == best.BWIntra && t.BWIntra < t.BWInter*2:
			s.at--
			t.BWIntra = s.speed[s.at] // for two nodes and CollNet, which send more inside the node
		default:
			return
		}
		_, steps = s.attempt()
	}
}

// simpleOrder is what NCCL falls back to: one slow channel through the GPUs as enumerated. It fails without a NIC, even
// inside a node, where the channel uses none.
func (m *system) simpleOrder(g *Graph) error {
	first, last := m.selectNets(-1, m.gpus[0]), m.selectNets(-1, m.gpus[len(m.gpus)-1])
	if len(first) == 0 || len(last) == 0 {
		return fmt.Errorf("no %s channel fits on the links, and there is no network port to fall back on", g.Pattern)
	}
	copy(g.Intra[0], m.Ranks())
	g.Inter[0] = []topo.ID{first[0].ID, last[0].ID}
	g.BWIntra, g.TypeIntra = .1, topo.PathSYS
	g.BWInter, g.TypeInter = .1, topo.PathSYS
	g.NChannels = 1
	return nil
}
