package channels

import (
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// fromNets begins a channel at each NIC in turn.
func (s *search) fromNets(goal goals) {
	g := s.try
	nets := s.selectNets(g.TypeInter, nil)
	bw := float32(int(g.BWInter)) // NCCL counts a NIC's bandwidth in whole GB/s here
	heads := g.Pattern == PatternNVLS || g.Pattern == PatternCollNetDirect
	found := false
	for i := range nets {
		if heads && found {
			break
		}
		net := nets[(g.NChannels+i)%len(nets)]
		if g.collNet && !net.Net.Coll || s.free[net.Index] < bw {
			continue
		}
		if g.alternates(s.NCCL) && g.NChannels%2 == 1 && net.ID != g.Inter[g.NChannels-1][1] {
			continue
		}
		g.Inter[g.NChannels][0] = net.ID
		g.LatencyInter = float32(net.Net.Latency)
		s.reserve(net, bw)
		reachable := true
		switch {
		case heads:
			if g.NChannels < len(nets) && s.newHead(net.Net.LocalGPU) {
				s.startFromNet(net, s.gpus[net.Net.LocalGPU], goal, orderFree)
				found = true
			}
		case !s.NCCL.Has(nccl.NICsOwnGPU):
			s.startNearest(net, goal)
		case g.NChannels > 0 && g.same:
			s.startFromNet(net, s.previous(0), goal, orderReplay)
		default:
			reachable = s.startNear(net, goal)
		}
		// NCCL does not give back the bandwidth of a NIC that reaches no GPU.
		if reachable {
			s.reserve(net, -bw)
		}
	}
}

// newHead reports whether a GPU is not yet the head of a channel.
func (s *search) newHead(gpu int) bool {
	return gpu >= 0 && !slices.ContainsFunc(s.try.Intra[:s.try.NChannels], func(channel []int) bool {
		return channel[0] == s.gpus[gpu].GPU.Rank
	})
}

// startInOrder tries a first channel from a NIC through the GPUs as enumerated. NCCL gives this try steps of its own.
func (s *search) startInOrder(net *topo.Node, goal goals) {
	if s.try.NChannels > 0 || s.hasNVS() {
		return
	}
	left := s.steps
	s.steps = searchStepsPCI
	s.startFromNet(net, s.gpus[0], goal, orderPCI)
	if s.steps != -1 {
		s.steps = left
	}
}

// startNearest begins a channel at a NIC by the rules before nccl.NICsOwnGPU. It tries the order of the previous
// channel. If channels may differ, it also tries each GPU that has the widest path, and of these the shortest.
func (s *search) startNearest(net *topo.Node, goal goals) {
	g := s.try
	if g.NChannels > 0 {
		s.startFromNet(net, s.previous(0), goal, orderReplay)
	}
	if g.NChannels > 0 && g.same {
		return
	}
	s.startInOrder(net, goal)
	var widest topo.Float32
	shortest := math.MaxInt
	for _, gpu := range s.gpus {
		switch p := s.Path(net, gpu); {
		case p.BW > widest:
			widest, shortest = p.BW, p.Hops
		case p.BW == widest && p.Hops > 0 && p.Hops < shortest:
			shortest = p.Hops
		}
	}
	if float32(widest) < float32(int(g.BWInter)) {
		return
	}
	for i := range s.gpus {
		gpu := s.gpus[(g.NChannels+i)%len(s.gpus)]
		if p := s.Path(net, gpu); p.BW == widest && p.Hops == shortest {
			s.startFromNet(net, gpu, goal, orderFree)
		}
	}
}

// startNear begins a channel at a NIC with the GPUs close to it. It reports whether there are any.
func (s *search) startNear(net *topo.Node, goal goals) bool {
	s.startInOrder(net, goal)
	local := net.Net.LocalGPU
	if local != -1 {
		s.startFromNet(net, s.gpus[local], goal, orderFree)
	}
	near := s.Nearest(net, topo.NodeGPU)
	if len(near) == 0 || s.Path(net, near[0]).Type == topo.PathDIS {
		return false
	}
	for _, g := range near {
		if g.Index != local {
			s.startFromNet(net, g, goal, orderFree)
		}
	}
	return true
}

func (s *search) startFromNet(net, gpu *topo.Node, goal goals, order int) {
	if s.use(net, gpu, 1) {
		s.start(gpu, goal, order)
		s.use(net, gpu, -1)
	}
}

// backToNet returns from a GPU to a NIC before the channel goes on. A balanced tree does so twice, from the first
// two GPUs, with half of the bandwidth each.
func (s *search) backToNet(gpu *topo.Node, step int, goal goals) {
	g := s.try
	start := s.netOf(g.Inter[g.NChannels][0])
	full := g.BWInter
	next := goals{backToNet: -1, backToFirst: goal.backToFirst, order: goal.order}
	part := full
	if g.Pattern == PatternBalancedTree {
		part /= 2
		if step == 0 {
			next.backToNet = 1
		}
	}
	for _, net := range s.selectNets(g.TypeInter, gpu) {
		if !s.mayReturn(start, net, step) {
			continue
		}
		g.BWInter = part
		ok := s.use(gpu, net, 1)
		g.BWInter = full
		if !ok {
			continue
		}
		g.Inter[g.NChannels][1] = net.ID
		s.visit(gpu, step, next)
		g.BWInter = part
		s.use(gpu, net, -1)
		g.BWInter = full
	}
}
