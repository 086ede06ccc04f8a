package topo

import (
	"errors"
	"fmt"
)

// Team is a set of ranks of a communicator, as in NCCL's device API: First, First+Stride, ...
type Team struct {
	First, NRanks, Stride int
}

// Ranks lists the members.
func (t Team) Ranks() []int {
	ranks := make([]int, t.NRanks)
	for i := range ranks {
		ranks[i] = t.First + i*t.Stride
	}
	return ranks
}

// Teams are the teams of a communicator for communication that kernels start themselves.
type Teams struct {
	NRanks  int
	LSASize int // ranks of each load/store team; it divides NRanks
}

// NewTeams gives the teams of a communicator with so many ranks on each node (an NVLink domain of several hosts counts as
// one node), numbered node by node. maxSize is NCCL_LSA_TEAM_SIZE, 0 when not set.
//
// NCCL wants load/store teams of equal size and of consecutive ranks, which makes the greatest common divisor of all
// numbers: nodes with 8 and 6 ranks have teams of 2.
func NewTeams(ranksPerNode []int, maxSize int) (Teams, error) {
	t := Teams{LSASize: max(0, maxSize)}
	if len(ranksPerNode) == 0 {
		return Teams{}, errors.New("a communicator without nodes has no teams")
	}
	for i, n := range ranksPerNode {
		if n < 1 {
			return Teams{}, fmt.Errorf("node %d has %d ranks", i, n)
		}
		t.NRanks += n
		t.LSASize = gcd(t.LSASize, n)
	}
	return t, nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// LSA is the team that a rank reaches by load and store (load/store accessible).
func (t Teams) LSA(rank int) Team {
	return Team{First: rank - rank%t.LSASize, NRanks: t.LSASize, Stride: 1}
}

// Rail is the team that a rank reaches over the network without crossing rails: the ranks in its place in all other
// load/store teams.
func (t Teams) Rail(rank int) Team {
	return Team{First: rank % t.LSASize, NRanks: t.NRanks / t.LSASize, Stride: t.LSASize}
}

// LoadStore reports whether two GPUs of the system can use each other's memory by load and store: by CUDA peer access on
// one host, whatever the distance, and over NVLink between hosts. Only the driver knows whether peer access works over
// PCI, so comm.PeerAccess decides there; without it, access is taken to work.
func (s *System) LoadStore(a, b *Node, comm *Comm) bool {
	if a == b || a.GPU.Device == b.GPU.Device {
		return true
	}
	if sameHost(a, b) {
		return comm.access(a, b)
	}
	return a.path(b).Type <= PathNVL
}

// LoadStoreSets splits the GPUs of the system, by rank, into sets whose members all reach each other by load and store. If
// there is more than one, NCCL has no load/store team on this system: it needs all pairs of a node. It needs computed
// paths.
func (s *System) LoadStoreSets(comm *Comm) [][]int {
	var sets [][]*Node
	for _, g := range s.Nodes[NodeGPU] {
		sets = s.joinSet(sets, g, comm)
	}
	ranks := make([][]int, len(sets))
	for i, set := range sets {
		for _, g := range set {
			ranks[i] = append(ranks[i], g.GPU.Rank)
		}
	}
	return ranks
}

func (s *System) joinSet(sets [][]*Node, g *Node, comm *Comm) [][]*Node {
next:
	for i, set := range sets {
		for _, member := range set {
			if !s.LoadStore(g, member, comm) || !s.LoadStore(member, g, comm) {
				continue next
			}
		}
		sets[i] = append(set, g)
		return sets
	}
	return append(sets, []*Node{g})
}

// CanMultimem reports whether the hardware can multicast: at least two GPUs, all Hopper or later and connected to
// NVSwitches. The driver and NCCL_NVLS_ENABLE have their say too, which a topology does not show.
func (s *System) CanMultimem() bool {
	const hopper = 90
	gpus := s.Nodes[NodeGPU]
	for _, g := range gpus {
		if g.GPU.SM < hopper || !g.GPU.Device.hasNVSwitch() {
			return false
		}
	}
	return len(gpus) >= 2
}
