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

func (s *searchSystem) speeds() []float32 {
	blackwell := s.minCC >= 100 && s.NCCL.Has(nccl.BlackwellSpeeds)
	switch {
	case blackwell && s.Inter:
		return speedsOf(speedsInterBlackwell, s.NCCL)
	case blackwell:
		return speedsOf(speedsIntraBlackwell, s.NCCL)
	case s.minCC >= 90 && s.Inter:
		return speedsInterHopper
	case s.minCC >= 90:
		return speedsIntraHopper
	case s.Inter:
		return speedsInter
	}
	return speedsIntra
}

// attempts drives the search for one graph. Each attempt is a walk under the limits of try, and best keeps the best
// solution of all. The first pass starts from the strictest limits and relaxes them one by one until there is a
// solution. The second pass keeps that number of channels and raises their speed.
type attempts struct {
	*searchSystem
	try  *searchGraph // limits of the next attempt
	best *searchGraph

	speed                []float32
	at                   int           // index into speed of the next attempt's
	same                 bool          // the first attempt wants all channels alike (searchGraph.same)
	crossNIC             int           // NCCL's number: 0 no, 1 always, 2 if nothing else works
	typeIntra, typeInter topo.PathType // best types to start with
	maxIntra, maxInter   topo.PathType // worst types to go to
	stepsLeft            int           // for all attempts together; below 0 the first pass ends with what it has
}

// search finds the channels for the pattern that graph asks for. The graph must be new. It fails where NCCL cannot
// create the communicator.
func (s *searchSystem) search(graph *searchGraph) error {
	gpus := len(s.gpus)
	a := attempts{searchSystem: s, best: graph, speed: s.speeds(), stepsLeft: searchStepsAll}
	if len(s.nets) > 1 && (graph.Pattern == PatternRing || graph.Pattern == PatternBalancedTree) {
		a.crossNIC = [...]int{topo.ToggleAuto: 2, topo.ToggleOff: 0, topo.ToggleOn: 1}[s.crossNIC]
	}
	if a.crossNIC == 1 {
		graph.CrossNIC = 1
	}
	a.limits()
	graph.TypeIntra, graph.TypeInter = a.typeIntra, a.typeInter
	a.same = graph.Pattern != PatternNVLS
	graph.same = a.same

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

	a.try = newSearchGraph(graph.ID, graph.Pattern, gpus, 0, 0)
	a.try.copyFrom(graph)
	a.at = a.fastest(a.try.MinChannels)
	a.setSpeed()
	a.firstPass()
	a.secondPass()
	if graph.NChannels == 0 && !graph.collNet && graph.Pattern != PatternNVLS {
		return s.simpleOrder(graph)
	}
	return nil
}

// limits sets the range of path types to try.
func (a *attempts) limits() {
	a.typeIntra, a.typeInter = topo.PathLOC, topo.PathPIX
	a.maxIntra, a.maxInter = topo.PathSYS, topo.PathSYS
	if !a.NCCL.Has(nccl.PathRange) {
		if len(a.gpus) > 1 {
			a.typeIntra = topo.PathNVL
		}
		return
	}
	if len(a.gpus) > 1 {
		a.typeIntra, a.maxIntra = pathRange(a.gpuGPU, true)
	}
	if a.Inter {
		a.typeInter, a.maxInter = pathRange(a.gpuNet, false)
		a.maxIntra = a.maxInter
	}
	if a.minCC < 90 && a.NCCL.Has(nccl.FarNICsBeforeHopper) {
		a.maxInter = topo.PathSYS // a balanced tree returns to the NIC from two GPUs, of which one may be far from it
	}
}

// fastest returns the index of the fastest speed that the hardware could reach with that many channels.
func (a *attempts) fastest(channels int) int {
	total := a.totalBW
	devs := len(a.Nodes[topo.NodeDEV])
	if devs > 1 && a.best.Pattern != PatternRing {
		// Other patterns need one hop less than a ring, which returns to its first GPU.
		total = float32(float64(total) * (float64(devs) / float64(devs-1)))
	}
	i := 0
	for i < len(a.speed)-1 && (a.speed[i] > a.maxBW || a.speed[i]*float32(channels) > total) {
		i++
	}
	return i
}

func (a *attempts) setSpeed() { a.try.BWIntra, a.try.BWInter = a.speed[a.at], a.speed[a.at] }

// attempt walks once. perfect says that no other walk could do better. steps is what the walk left of its own steps,
// -1 if it reached the maximum number of channels.
func (a *attempts) attempt() (perfect bool, steps int) {
	steps = searchSteps
	if a.try.same {
		steps = searchStepsSame
	}
	a.try.NChannels = 0
	a.stepsLeft -= steps
	steps = a.run(a.try, a.best, steps)
	return steps == -1 || float32(a.best.NChannels)*a.best.BWInter >= a.totalBW, steps
}

func (a *attempts) firstPass() {
	for {
		perfect, steps := a.attempt()
		if perfect || !a.relax(steps) {
			return
		}
	}
}

// relax changes the limits for the next attempt: it loosens the first limit that can still be loosened, in NCCL's
// order, and sets those before it back. It reports false when there is nothing left to try. steps is what the last
// attempt left of its steps.
func (a *attempts) relax(steps int) bool {
	t, best := a.try, a.best
	viaAMD := a.cpu.Arch == topo.ArchX86 && a.cpu.Vendor == topo.VendorAMD && t.TypeIntra == topo.PathSYS
	if t.same && !viaAMD { // between AMD CPUs NCCL does not try channels that differ
		t.same = false
		return true
	}
	t.same = a.same

	a.stepsLeft += steps
	if a.stepsLeft < 0 && best.NChannels > 0 {
		return false // a solution is enough: other limits would take too long
	}
	if a.minCC >= 90 && t.Pattern == PatternBalancedTree {
		t.Pattern = PatternTree
		return true
	}
	t.Pattern = best.Pattern

	worstIntra := a.maxIntra
	if a.Inter {
		worstIntra = t.TypeInter
	}
	if t.TypeIntra < worstIntra && (best.NChannels == 0 || t.TypeIntra < best.TypeIntra) {
		t.TypeIntra++
		if t.TypeIntra < topo.PathDIS {
			return true
		}
	}
	t.TypeIntra = a.typeIntra

	if a.Inter && t.TypeInter < a.maxInter &&
		(best.NChannels == 0 || t.TypeInter < best.TypeInter || t.TypeInter < topo.PathPXN) {
		t.TypeInter++
		if t.TypeInter < topo.PathDIS {
			return true
		}
	}
	t.TypeInter = a.typeInter

	mayCross := best.Pattern == PatternRing || best.Pattern == PatternBalancedTree || !a.NCCL.Has(nccl.CrossedRings)
	if a.crossNIC == 2 && t.CrossNIC == 0 && mayCross {
		t.CrossNIC = 2
		return true
	}
	t.CrossNIC = a.crossNIC % 2

	if a.at < len(a.speed)-1 && (best.NChannels == 0 || float64(a.speed[a.at+1]/best.BWInter) > .49) {
		a.at++
		a.setSpeed()
		return true
	}
	return false
}

// secondPass raises the speed of the solution for as long as that works.
func (a *attempts) secondPass() {
	best := a.best
	best.duplicate(a.minCC)
	a.try.copyFrom(best)
	a.at = 0
	for a.at < len(a.speed)-1 && a.speed[a.at] > best.BWInter {
		a.at++
	}
	a.setSpeed()
	a.try.MinChannels = best.NChannels // more speed must not cost channels
	for steps := -1; steps != 0 && a.at > 0; {
		t := a.try
		switch {
		case best.Pattern == PatternRing:
			a.at--
			a.setSpeed()
		case best.Pattern == PatternNVLS && t.BWInter == best.BWInter && t.BWInter < t.BWIntra*2:
			t.MinChannels, t.MaxChannels = best.NChannels, best.NChannels
			a.at--
			t.BWInter = a.speed[a.at]
		case t.BWIntra == best.BWIntra && t.BWIntra < t.BWInter*2:
			a.at--
			t.BWIntra = a.speed[a.at] // for two nodes and CollNet, which send more inside the node
		default:
			return
		}
		_, steps = a.attempt()
	}
}

// simpleOrder is what NCCL falls back to: one slow channel through the GPUs as enumerated. It fails without a NIC, even
// inside a node, where the channel uses none.
func (s *searchSystem) simpleOrder(g *searchGraph) error {
	first, last := s.selectNets(-1, 0), s.selectNets(-1, len(s.gpus)-1)
	if len(first) == 0 || len(last) == 0 {
		return fmt.Errorf("no %s channel fits on the links, and there is no network port to fall back on", g.Pattern)
	}
	for i := range s.gpus {
		g.Intra[0][i] = s.gpus[i].rank
	}
	g.Inter[0] = []topo.ID{s.nets[first[0]].id, s.nets[last[0]].id}
	g.BWIntra, g.TypeIntra = .1, topo.PathSYS
	g.BWInter, g.TypeInter = .1, topo.PathSYS
	g.NChannels = 1
	return nil
}
