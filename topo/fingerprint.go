package topo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

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
