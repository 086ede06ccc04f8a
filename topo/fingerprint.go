package topo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Fingerprint identifies a kind of machine. It does not change with the order of devices, PCI addresses, NUMA and device
// numbers, names or hosts, so that two nodes of a cluster have the same.
type Fingerprint struct {
	// Machine covers all that paths depend on: what is connected to what at which bandwidth, the models of GPUs and
	// CPUs, GPUDirect RDMA.
	Machine string
	// Shape covers the same without bandwidths and models, down to the generation of the GPUs: what is measured on a
	// machine can be scaled to another one of the same shape.
	Shape string
}

// SameMachine reports whether measurements carry over as they are.
func (f Fingerprint) SameMachine(g Fingerprint) bool { return f.Machine == g.Machine }

// Similar reports whether measurements carry over after scaling.
func (f Fingerprint) Similar(g Fingerprint) bool { return f.Shape == g.Shape }

// String is the shape and the machine: two machines of one shape share the part before the colon.
func (f Fingerprint) String() string { return f.Shape + ":" + f.Machine }

// ParseFingerprint reads what String wrote.
func ParseFingerprint(s string) (Fingerprint, error) {
	shape, machine, ok := strings.Cut(s, ":")
	if !ok || !isColor(shape) || !isColor(machine) {
		return Fingerprint{}, fmt.Errorf("%q is no topology fingerprint (want two of %d hexadecimal digits, joined by a colon)", s, 2*colorBytes)
	}
	return Fingerprint{Machine: machine, Shape: shape}, nil
}

// Fingerprint needs no paths. Take it before Trim, or machines whose communicators differ will differ too.
//
// It refines colours (Weisfeiler and Leman): every node starts with a colour of its own properties and takes on those of
// its neighbours until the colours tell no more nodes apart. Machines that differ but look the same from every node
// would share a fingerprint; no two of the known kinds do.
func (s *System) Fingerprint() Fingerprint {
	return Fingerprint{
		Machine: s.color(machineLabel, func(l *Link) string { return fmt.Sprint(l.Type, l.BW) }),
		Shape:   s.color(shapeLabel, func(l *Link) string { return l.Type.String() }),
	}
}

func machineLabel(n *Node) string {
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

func shapeLabel(n *Node) string {
	const generation = 10
	switch {
	case n.GPU != nil:
		return fmt.Sprint("GPU", n.GPU.SM/generation, n.GPU.GDR, n.GPU.MLOPart)
	case n.CPU != nil:
		// NCCL's default for P2P depends on the vendor.
		return fmt.Sprint("CPU", n.CPU.Arch, n.CPU.Vendor)
	case n.Net != nil:
		return fmt.Sprint(n.Type, n.Net.GDR, n.Net.Coll)
	}
	return n.Type.String()
}

// colorBytes of a SHA-256 are enough to tell machines apart.
const colorBytes = 8

type color [colorBytes]byte

func isColor(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == colorBytes && s == strings.ToLower(s)
}

func colorOf(parts ...string) (c color) {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	copy(c[:], sum[:])
	return c
}

func (s *System) color(label func(*Node) string, edge func(*Link) string) string {
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
				around[i] = edge(&n.Links[i]) + " " + string(to[:])
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
	return hex.EncodeToString(whole[:])
}
