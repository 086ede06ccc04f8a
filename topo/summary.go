package topo

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Machine is a kind of machine: that a model was measured on, or that a process runs on.
type Machine struct {
	Fingerprint Fingerprint `json:"fingerprint"`
	Summary     Summary     `json:"summary"`
}

// Summary holds the numbers of a machine that rules and models may use. They follow from the topology and the settings
// alone, so all ranks that share both get the same; on several hosts each summarises its own. Bandwidths are GB/s
// (1e9 B/s), and those of paths count NCCL's diversions.
type Summary struct {
	GPUs  int `expr:"gpus" json:"gpus"`
	Hosts int `expr:"hosts" json:"hosts"` // more than 1 in an NVLink domain of several hosts
	CPUs  int `expr:"cpus" json:"cpus"`   // NUMA domains

	SM   int    `expr:"sm" json:"sm"`     // lowest compute capability times 10: 90 for Hopper
	Arch string `expr:"arch" json:"arch"` // of the CPUs: x86_64, arm64, ppc64; "" unknown

	NVSwitch bool `expr:"nvswitch" json:"nvswitch"` // every GPU is connected to NVSwitches
	C2C      bool `expr:"c2c" json:"c2c"`           // every GPU has NVLink-C2C to its CPU
	Multimem bool `expr:"multimem" json:"multimem"` // NVLS and multicast memory are possible, see CanMultimem

	// IntraBW is the narrowest path of the ring of all GPUs that has the widest one, MinPairBW that of any two GPUs,
	// and Intra the farthest path type of any two: NVL, NVB, PIX, PXB, PHB, SYS, NET, ... With one GPU they are 0 and
	// LOC.
	IntraBW   float64 `expr:"intra_bw" json:"intra_bw"`
	MinPairBW float64 `expr:"min_pair_bw" json:"min_pair_bw"`
	Intra     string  `expr:"intra" json:"intra"`
	// NVLinkBW is what the NVLinks of the GPU with the fewest of them carry together; 0 without.
	NVLinkBW float64 `expr:"nvlink_bw" json:"nvlink_bw"`

	// NICs counts the network ports that are nearest to some GPU, which are those NCCL uses. NICBW is the rate of the
	// slowest of them, NetBW what they carry together as far as the PCI links of their adapters let them.
	NICs  int     `expr:"nics" json:"nics"`
	NICBW float64 `expr:"nic_bw" json:"nic_bw"`
	NetBW float64 `expr:"net_bw" json:"net_bw"`
	// NetLatency is the largest that a net plugin states, in microseconds; 0 when none states any, as NCCL's own.
	NetLatency float64 `expr:"net_latency" json:"net_latency"`

	// GPUNIC is the farthest path type of a GPU to the port it uses first, GPUNICBW the narrowest of these paths, and
	// GDR whether GPUDirect RDMA is on for all of them, both ways. Without ports they are DIS, 0 and false.
	GPUNIC   string  `expr:"gpu_nic" json:"gpu_nic"`
	GPUNICBW float64 `expr:"gpu_nic_bw" json:"gpu_nic_bw"`
	GDR      bool    `expr:"gdr" json:"gdr"`
}

// SummaryTexts lists what each text of a Summary can be, by its expr name.
func SummaryTexts() map[string][]string {
	archs := make([]string, len(cpuArchs))
	for i, k := range cpuArchs {
		archs[i] = k.prefix
	}
	return map[string][]string{"arch": archs, "intra": pathTypeNames[:], "gpu_nic": pathTypeNames[:]}
}

// Summarize computes the paths anew. Call it before Trim: what Trim leaves depends on the rank.
func (s *System) Summarize() (Summary, error) {
	gpus := s.Nodes[NodeGPU]
	if len(gpus) == 0 {
		return Summary{}, errors.New("a system without GPUs has no summary")
	}
	if err := s.ComputePaths(); err != nil {
		return Summary{}, err
	}
	sum := Summary{
		GPUs: len(gpus), Hosts: len(s.HostHashes), CPUs: len(s.Nodes[NodeCPU]), SM: gpus[0].GPU.SM, Arch: s.arch(),
		NVSwitch: true, C2C: true, Multimem: s.CanMultimem(),
	}
	for i, g := range gpus {
		links := g.GPU.Device.linksByType()
		nvLink := float64(links[LinkNVL])
		if sum.SM = min(sum.SM, g.GPU.SM); i == 0 || nvLink < sum.NVLinkBW {
			sum.NVLinkBW = nvLink
		}
		sum.C2C = sum.C2C && links[LinkC2C] > 0
		sum.NVSwitch = sum.NVSwitch && g.GPU.Device.hasNVSwitch()
	}
	s.summarizePairs(&sum)
	s.summarizeNet(&sum)
	return sum, nil
}

func (s *System) arch() string {
	for _, k := range cpuArchs {
		if k.value == s.Nodes[NodeCPU][0].CPU.Arch {
			return k.prefix
		}
	}
	return ""
}

// linksByType adds up the bandwidths of a node's links.
func (n *Node) linksByType() (bw [len(linkTypeNames)]float32) {
	for _, l := range n.Links {
		bw[l.Type] += l.BW
	}
	return bw
}

func (n *Node) hasNVSwitch() bool {
	return slices.ContainsFunc(n.Links, func(l Link) bool { return l.Type == LinkNVL && l.To.Type == NodeNVS })
}

// CanMultimem reports whether the hardware can multicast: at least two GPUs, all Hopper or later and connected to
// NVSwitches. The driver and NCCL_NVLS_ENABLE have their say too, which a topology does not show.
func (s *System) CanMultimem() bool {
	const hopper = 90
	gpus := s.Nodes[NodeGPU]
	return len(gpus) >= 2 && !slices.ContainsFunc(gpus, func(g *Node) bool {
		return g.GPU.SM < hopper || !g.GPU.Device.hasNVSwitch()
	})
}

func (s *System) summarizePairs(sum *Summary) {
	gpus := s.Nodes[NodeGPU]
	bw := make([][]float64, len(gpus))
	farthest := PathLOC
	for i, a := range gpus {
		bw[i] = make([]float64, len(gpus))
		for j, b := range gpus {
			if i == j {
				continue
			}
			bw[i][j] = min(s.pairBW(a, b), s.pairBW(b, a))
			farthest = max(farthest, a.path(b).Type)
			if first := i == 0 && j == 1; first || bw[i][j] < sum.MinPairBW {
				sum.MinPairBW = bw[i][j]
			}
		}
	}
	sum.Intra = farthest.String()
	if len(gpus) > 1 {
		sum.IntraBW = widestRing(bw)
	}
}

// pairBW is the bandwidth from one GPU to another. Two GPUs that communicate over the network (type NET) do so at the
// rate of their ports.
func (s *System) pairBW(a, b *Node) float64 {
	if path := a.path(b); path.Type != PathNET {
		return float64(path.BW)
	}
	return float64(min(s.nearNetBW(a), s.nearNetBW(b)))
}

func (s *System) summarizeNet(sum *Summary) {
	sum.GPUNIC = PathDIS.String()
	used := make(map[*Node]bool)
	for _, g := range s.Nodes[NodeGPU] {
		for _, net := range s.Nearest(g, NodeNET) {
			used[net] = true
		}
	}
	if len(used) == 0 {
		return
	}
	for _, nic := range s.Nodes[NodeNIC] {
		var ports float64
		for _, l := range nic.Links {
			if !used[l.To] {
				continue
			}
			rate := float64(l.To.Net.BW)
			ports += rate
			if sum.NICs++; sum.NICs == 1 || rate < sum.NICBW {
				sum.NICBW = rate
			}
			sum.NetLatency = max(sum.NetLatency, float64(l.To.Net.Latency))
		}
		if pci := float64(nic.linksByType()[LinkPCI]); pci > 0 {
			ports = min(ports, pci)
		}
		sum.NetBW += ports
	}
	farthest := PathLOC
	sum.GDR = true
	for i, g := range s.Nodes[NodeGPU] { // the way of each to the port that it uses first
		net := s.LocalNet(g, 0)
		if net == nil {
			farthest, sum.GPUNICBW, sum.GDR = PathDIS, 0, false
			continue
		}
		path := g.path(net)
		farthest = max(farthest, path.Type)
		if bw := float64(path.BW); i == 0 || bw < sum.GPUNICBW {
			sum.GPUNICBW = bw
		}
		for _, send := range []bool{false, true} {
			sum.GDR = sum.GDR && s.CheckGDR(g, net, send).Mode != GDROff
		}
	}
	sum.GPUNIC = farthest.String()
}

// String is one line for a log.
func (s Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s sm_%d", wording.Plural(s.GPUs, "GPU"), s.SM)
	if s.GPUs > 1 {
		fmt.Fprintf(&b, ", %s at %.4g GB/s", s.Intra, s.IntraBW)
	}
	if s.NVSwitch {
		b.WriteString(" (NVSwitch)")
	}
	if s.NICs == 0 {
		b.WriteString(", no network port")
		return b.String()
	}
	fmt.Fprintf(&b, ", %s with %.4g GB/s, GPU to port %s", wording.Plural(s.NICs, "network port"), s.NetBW, s.GPUNIC)
	if s.GDR {
		b.WriteString(" with GPUDirect RDMA")
	}
	return b.String()
}

// Fingerprint identifies a kind of machine by all that paths depend on: what is connected to what at which bandwidth,
// the models of GPUs and CPUs, GPUDirect RDMA. It does not change with the order of devices, PCI addresses, NUMA and
// device numbers, names or hosts, so that two nodes of a cluster have the same.
type Fingerprint string

// ParseFingerprint reads one from a file.
func ParseFingerprint(s string) (Fingerprint, error) {
	if raw, err := hex.DecodeString(s); err != nil || len(raw) != colorBytes || s != strings.ToLower(s) {
		return "", fmt.Errorf("%s is no topology fingerprint (want %d hexadecimal digits, lower case)",
			wording.Quote(s), 2*colorBytes)
	}
	return Fingerprint(s), nil
}

// Fingerprint needs no paths. Take it before Trim, or machines whose communicators differ will differ too.
//
// It refines colours (Weisfeiler and Leman): every node starts with a colour of its own properties and takes on those
// of its neighbours until the colours tell no more nodes apart. Machines that differ but look the same from every
// node would share a fingerprint; no two of the known kinds do.
func (s *System) Fingerprint() Fingerprint {
	colors := make(map[*Node]color)
	for _, nodes := range s.Nodes {
		for _, n := range nodes {
			colors[n] = colorOf(label(n))
		}
	}
	for kinds := 0; ; {
		next := make(map[*Node]color, len(colors))
		distinct := make(map[color]bool)
		for n, own := range colors {
			around := make([]string, len(n.Links))
			for i := range n.Links {
				to := colors[n.Links[i].To]
				around[i] = fmt.Sprint(n.Links[i].Type, n.Links[i].BW) + " " + string(to[:])
			}
			slices.Sort(around)
			next[n] = colorOf(append([]string{string(own[:])}, around...)...)
			distinct[next[n]] = true
		}
		colors = next
		if len(distinct) == kinds {
			break
		}
		kinds = len(distinct)
	}
	all := make([]string, 0, len(colors))
	for _, c := range colors {
		all = append(all, string(c[:]))
	}
	slices.Sort(all)
	whole := colorOf(all...)
	return Fingerprint(hex.EncodeToString(whole[:]))
}

func label(n *Node) string {
	switch {
	case n.GPU != nil:
		return fmt.Sprint("GPU", n.GPU.SM, n.GPU.GDR, n.GPU.MLOPart)
	case n.Dev != nil:
		const model = 32 // the upper half of PCIID; the lower one is the maker of the board
		return fmt.Sprintf("DEV %d %x", n.Dev.SM, n.Dev.PCIID>>model)
	case n.CPU != nil:
		return fmt.Sprint("CPU", *n.CPU)
	case n.Net != nil:
		return fmt.Sprint(n.Type, n.Net.BW, n.Net.Latency, n.Net.GDR, n.Net.Coll)
	}
	return n.Type.String()
}

// colorBytes of a SHA-256 are enough to tell machines apart.
const colorBytes = 8

type color [colorBytes]byte

func colorOf(parts ...string) (c color) {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	copy(c[:], sum[:])
	return c
}
