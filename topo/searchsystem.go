package topo

import "math"

// searchSystem is what the channel search works on: a private copy of the topology's links, whose bandwidths the
// search consumes and gives back, and the paths between the nodes that channels connect. Path and link types are
// numbered as in pathTypeNames.
//
// It is used by one goroutine, for all graphs of one communicator in turn: NCCL keeps the rounding errors of one
// graph's search for the next, so the order matters.
type searchSystem struct {
	nodes []searchNode
	links []searchLink
	gpus  []searchGPU
	nets  []searchNet
	nvs   int // number of NVSwitch nodes; searches only use the first

	gpuGPU, gpuNet, netGPU [][]searchPath // [from][to]
	gpuNVS, nvsGPU         []searchPath   // to and from the first NVSwitch

	inter     bool    // the communicator reaches beyond this system
	maxBw     float32 // GB/s, the fastest that one channel could be
	totalBw   float32 // GB/s, the most that one GPU can move
	devs      int     // number of physical GPUs
	minCC     int     // lowest compute capability
	cpuArch   int     // of the first CPU
	cpuVendor int
	hosts     int // hosts that share the NVLink domain

	netOrder map[[2]int][]int // answers of selectNets by {type, gpu}
}

type searchNode struct {
	dev       bool // a physical GPU
	cpu       bool
	compCap   int // of a physical GPU
	arch      int // of a CPU
	intelX86  bool
	pciUplink []int // links of type PCI, in stored order
	links     []int // all links, in stored order
}

type searchLink struct {
	kind    int // path type of the link alone: LOC, NVL, C2C, PIX for PCI, SYS, NET
	from    int // node
	to      int // node
	reverse int // the first link back of the same kind; -1 if there is none
	bw      float32
}

type searchGPU struct {
	rank int
	dev  int    // number of the GPU on its host
	node int    // the physical GPU's node
	used uint64 // channels that pass this GPU, one bit each
}

type searchNet struct {
	id       int64
	asic     uint64
	port     int
	rail     int // -1: unknown
	plane    int // -1: unknown
	bw       float32
	latency  float32
	coll     bool
	localGPU int // GPU that this NIC serves; -1: none
}

type searchPath struct {
	kind  int // path type
	bw    float32
	links []int
	// throughIntel is set where traffic from a GPU is split into small packets by an Intel CPU.
	throughIntel bool
}

// Path types that the search compares with.
const (
	pathLOC = 0
	pathNVL = 1
	pathPIX = 4
	pathPXN = 7
	pathPHB = 8
	pathSYS = 9
	pathDIS = 11
)

// finish computes what follows from nodes, links and paths.
func (s *searchSystem) finish() {
	for i := range s.links {
		s.links[i].reverse = -1
		for _, back := range s.nodes[s.links[i].to].links {
			if s.links[back].to == s.links[i].from && s.links[back].kind == s.links[i].kind {
				s.links[i].reverse = back
				break
			}
		}
	}
	mark := func(paths []searchPath) {
		for i := range paths {
			p := &paths[i]
			if p.kind != pathPHB {
				continue
			}
			for _, l := range p.links {
				n := s.nodes[s.links[l].to]
				p.throughIntel = p.throughIntel || n.cpu && n.intelX86
			}
		}
	}
	for g := range s.gpus {
		mark(s.gpuGPU[g])
		mark(s.gpuNet[g])
	}
	mark(s.gpuNVS)
	s.netOrder = map[[2]int][]int{}
	for n := range s.nets {
		s.nets[n].localGPU = s.localGPU(n)
	}
}

// round3 rounds to a thousandth, half away from zero, as NCCL does after each subtraction of a bandwidth.
func round3(x float32) float32 {
	return float32(math.Round(float64(float32(x*1000)))) / 1000
}

// take subtracts bw from the links of a path, up to steps of them, and returns how many had enough. fromGPU says
// whether the path starts at a GPU. A negative bw gives back.
func (s *searchSystem) take(p *searchPath, fromGPU bool, steps int, bw float32) int {
	pciBw := bw
	if fromGPU && p.throughIntel {
		pciBw = float32(bw*6) / 5
	}
	for i, l := range p.links[:steps] {
		link := &s.links[l]
		forward := bw
		if link.kind == pathPIX {
			forward = pciBw
		}
		// Before Ampere, reads from the network cost requests the other way; on POWER all NVLink traffic to the
		// CPU does.
		var back float32
		to := &s.nodes[link.to]
		if to.dev && to.compCap < 80 && !fromGPU {
			back += forward / 8
		}
		if to.cpu && to.arch == CPUArchPower && link.kind == pathNVL {
			back += forward
		}
		if link.bw < forward || back != 0 && s.links[link.reverse].bw < back {
			return i
		}
		link.bw = round3(link.bw - forward)
		if back != 0 {
			reverse := &s.links[link.reverse]
			reverse.bw = round3(reverse.bw - back)
		}
	}
	return steps
}

// pciBw is the remaining PCI bandwidth between a GPU and the switch above it, in whole GB/s.
func (s *searchSystem) pciBw(gpu int) int {
	dev := s.gpus[gpu].node
	for _, up := range s.nodes[dev].pciUplink {
		for _, down := range s.nodes[s.links[up].to].links {
			if s.links[down].to == dev {
				return int(min(s.links[up].bw, s.links[down].bw))
			}
		}
	}
	return -1
}

// pathRange returns the best and worst type among paths from GPUs; self says that paths[i][i] do not count.
func pathRange(paths [][]searchPath, self bool) (best, worst int) {
	best, worst = pathSYS, pathLOC
	for i := range paths {
		for j, p := range paths[i] {
			if self && i == j {
				continue
			}
			best, worst = min(best, p.kind), max(worst, p.kind)
		}
	}
	return best, worst
}

// splitNVLink says whether there are exactly two NVLink domains of more than one GPU.
func (s *searchSystem) splitNVLink() bool {
	domain := make([]int, len(s.gpus))
	for g := range domain {
		domain[g] = g
	}
	for g := range s.gpus {
		for p := g + 1; p < len(s.gpus); p++ {
			if s.gpuGPU[g][p].kind == pathNVL {
				domain[p] = domain[g]
			}
		}
	}
	size := make([]int, len(s.gpus))
	for _, d := range domain {
		size[d]++
	}
	domains := 0
	for _, n := range size {
		if n > 1 {
			domains++
		}
	}
	return domains == 2
}
