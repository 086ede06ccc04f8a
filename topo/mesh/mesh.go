package mesh

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cycle"
)

// Mesh is a cluster without a switch: cables join ports of two nodes, and each cable (or bundle of them) is a subnet
// of its own. Which node reaches which, and from which port, follows from the addresses. A Mesh is not changed after
// it was made.
type Mesh struct {
	Nodes []Node
	links [][][]Link    // [from][to]
	bw    cycle.Weights // of all links of a pair
}

// Node is one machine.
type Node struct {
	Name string
	NICs []NIC
}

// NIC is one port.
type NIC struct {
	Name    string
	Address netip.Prefix // the port's own address and the length of its subnet's mask
	GBps    float64      // GB/s (1e9 B/s), each way
}

// Link is one cable as its From node sees it.
type Link struct {
	From        string     `json:"from"`
	NIC         string     `json:"nic"` // of From: the port to use
	Address     netip.Addr `json:"address"`
	To          string     `json:"to"`
	PeerNIC     string     `json:"peer_nic"`
	PeerAddress netip.Addr `json:"peer_address"`
	GBps        float64    `json:"gbps"` // of the slower port, each way
}

// newMesh finds the links between nodes. A subnet that joins more than two nodes is an error, since a cable cannot,
// and so are subnets that overlap without being the same, since then the masks are wrong.
func newMesh(nodes []Node) (*Mesh, error) {
	if err := checkSubnets(nodes); err != nil {
		return nil, err
	}
	m := &Mesh{Nodes: nodes, links: make([][][]Link, len(nodes)), bw: make(cycle.Weights, len(nodes))}
	for a := range nodes {
		m.links[a], m.bw[a] = make([][]Link, len(nodes)), make([]float64, len(nodes))
	}
	for a := range nodes {
		for b := a + 1; b < len(nodes); b++ {
			m.links[a][b] = cables(nodes[a], nodes[b])
			for _, l := range m.links[a][b] {
				m.links[b][a] = append(m.links[b][a], l.reverse())
				m.bw[a][b] += l.GBps
			}
			m.bw[b][a] = m.bw[a][b]
		}
	}
	return m, nil
}

func checkSubnets(nodes []Node) error {
	owners := make(map[netip.Prefix][]string)
	for _, n := range nodes {
		for _, nic := range n.NICs {
			subnet := nic.Address.Masked()
			if !slices.Contains(owners[subnet], n.Name) {
				owners[subnet] = append(owners[subnet], n.Name)
			}
		}
	}
	// In this order a subnet comes right before those inside it.
	subnets := slices.SortedFunc(maps.Keys(owners), func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	for i, subnet := range subnets {
		if on := owners[subnet]; len(on) > 2 {
			return fmt.Errorf("subnet %s joins %d nodes (%s), but a direct link joins two", subnet, len(on),
				strings.Join(on, ", "))
		}
		if i > 0 && subnet.Overlaps(subnets[i-1]) {
			other := subnets[i-1]
			return fmt.Errorf("subnets %s (%s) and %s (%s) overlap: the masks of a link must be the same at both ends",
				other, strings.Join(owners[other], ", "), subnet, strings.Join(owners[subnet], ", "))
		}
	}
	return nil
}

// cables pairs the ports of two nodes: each port with one of the other node that is on the same subnet, by the masks of
// both. Where several ports share a subnet, the fastest go together.
func cables(a, b Node) []Link {
	var found []Link
	for _, nicA := range a.NICs {
		for _, nicB := range b.NICs {
			if nicA.Address.Masked() == nicB.Address.Masked() {
				found = append(found, Link{a.Name, nicA.Name, nicA.Address.Addr(), b.Name, nicB.Name,
					nicB.Address.Addr(), min(nicA.GBps, nicB.GBps)})
			}
		}
	}
	slices.SortStableFunc(found, func(x, y Link) int { return cmp.Compare(y.GBps, x.GBps) })
	used := make(map[netip.Addr]bool)
	return slices.DeleteFunc(found, func(l Link) bool {
		if used[l.Address] || used[l.PeerAddress] {
			return true
		}
		used[l.Address], used[l.PeerAddress] = true, true
		return false
	})
}

func (l Link) reverse() Link {
	return Link{l.To, l.PeerNIC, l.PeerAddress, l.From, l.NIC, l.Address, l.GBps}
}

// Links returns the direct links from one node to another, fastest first.
func (m *Mesh) Links(from, to int) []Link { return m.links[from][to] }

// BW is the bandwidth between two nodes in GB/s over all direct links, each way; 0 when there is none.
func (m *Mesh) BW(a, b int) float64 { return m.bw[a][b] }

// Unlinked lists the pairs without a direct link, by index.
func (m *Mesh) Unlinked() [][2]int {
	var pairs [][2]int
	for a := range m.Nodes {
		for b := a + 1; b < len(m.Nodes); b++ {
			if len(m.links[a][b]) == 0 {
				pairs = append(pairs, [2]int{a, b})
			}
		}
	}
	return pairs
}
