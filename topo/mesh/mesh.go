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

// Mesh is a cluster without a switch: cables join ports of two nodes, and each cable (or bundle of them) is a subnet of its
// own. Which node reaches which, and from which port, follows from the addresses. A Mesh is not changed after it was made.
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
	From, To          int // indices of Nodes
	Local, Remote     int // indices of their NICs
	Subnet            netip.Prefix
	GBps              float64 // of the slower port, each way
	LocalIP, RemoteIP netip.Addr
}

// NoDirectLinkError names two nodes that no cable joins.
type NoDirectLinkError struct {
	From, To string
	// Apart says that there is no way over other nodes either.
	Apart bool
	// Addresses tells what each of the two has, for the message.
	FromHas, ToHas []netip.Prefix
}

func (e *NoDirectLinkError) Error() string {
	if e.Apart {
		return fmt.Sprintf("no way from %s to %s, not even over other nodes", e.From, e.To)
	}
	return fmt.Sprintf("no direct link between %s (%s) and %s (%s): they share no subnet",
		e.From, joinPrefixes(e.FromHas), e.To, joinPrefixes(e.ToHas))
}

func joinPrefixes(prefixes []netip.Prefix) string {
	if len(prefixes) == 0 {
		return "no address"
	}
	text := make([]string, len(prefixes))
	for i, p := range prefixes {
		text[i] = p.String()
	}
	return strings.Join(text, ", ")
}

// New finds the links between nodes. A subnet that joins more than two nodes is an error, since a cable cannot, and so
// are subnets that overlap without being the same, since then the masks are wrong.
func New(nodes []Node) (*Mesh, error) {
	if err := checkSubnets(nodes); err != nil {
		return nil, err
	}
	m := &Mesh{Nodes: nodes, links: make([][][]Link, len(nodes)), bw: make(cycle.Weights, len(nodes))}
	for a := range nodes {
		m.links[a], m.bw[a] = make([][]Link, len(nodes)), make([]float64, len(nodes))
	}
	for a := range nodes {
		for b := a + 1; b < len(nodes); b++ {
			m.links[a][b] = cables(nodes, a, b)
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
			return fmt.Errorf("subnet %s joins %d nodes (%s), but a direct link joins two", subnet, len(on), strings.Join(on, ", "))
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
func cables(nodes []Node, a, b int) []Link {
	var found []Link
	for i, nicA := range nodes[a].NICs {
		for j, nicB := range nodes[b].NICs {
			if nicA.Address.Masked() == nicB.Address.Masked() {
				found = append(found, Link{
					From: a, To: b, Local: i, Remote: j, Subnet: nicA.Address.Masked(), GBps: min(nicA.GBps, nicB.GBps),
					LocalIP: nicA.Address.Addr(), RemoteIP: nicB.Address.Addr(),
				})
			}
		}
	}
	slices.SortStableFunc(found, func(x, y Link) int { return cmp.Compare(y.GBps, x.GBps) })
	usedA, usedB := make(map[int]bool), make(map[int]bool)
	return slices.DeleteFunc(found, func(l Link) bool {
		if usedA[l.Local] || usedB[l.Remote] {
			return true
		}
		usedA[l.Local], usedB[l.Remote] = true, true
		return false
	})
}

func (l Link) reverse() Link {
	l.From, l.To = l.To, l.From
	l.Local, l.Remote = l.Remote, l.Local
	l.LocalIP, l.RemoteIP = l.RemoteIP, l.LocalIP
	return l
}

// Links returns the direct links from one node to another, fastest first: Local is the port to use. The error is a
// *NoDirectLinkError.
func (m *Mesh) Links(from, to int) ([]Link, error) {
	if links := m.links[from][to]; len(links) > 0 {
		return links, nil
	}
	return nil, m.noLink(from, to)
}

func (m *Mesh) noLink(from, to int) *NoDirectLinkError {
	has := func(n int) (prefixes []netip.Prefix) {
		for _, nic := range m.Nodes[n].NICs {
			prefixes = append(prefixes, nic.Address)
		}
		return prefixes
	}
	return &NoDirectLinkError{From: m.Nodes[from].Name, To: m.Nodes[to].Name, FromHas: has(from), ToHas: has(to)}
}

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
