package topo

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Label is a short name for people: gpu0 (by rank), mlx5_0 or net0 (by device number), cpu0 (by NUMA number; cpu
// without one), nvs; other nodes have none and keep Name. It is unique on one host.
func (n *Node) Label() string {
	switch {
	case n.GPU != nil:
		return fmt.Sprintf("gpu%d", n.GPU.Rank)
	case n.Type == NodeNET && n.Net.Name != "":
		return n.Net.Name
	case n.Type == NodeNET:
		return fmt.Sprintf("net%d", n.Net.Dev)
	case n.Type == NodeCPU && n.ID.numa() < 0:
		return "cpu"
	case n.Type == NodeCPU:
		return fmt.Sprintf("cpu%d", n.ID.numa())
	case n.Type == NodeNVS:
		return "nvs"
	}
	return n.Name()
}

// Label is the node's label. If there are several hosts, the number of the node's host precedes it: 1/mlx5_0. GPUs need
// no host, since ranks are unique.
func (s *System) Label(n *Node) string {
	if len(s.HostHashes) < 2 || n.Type == NodeNVS || n.GPU != nil || n.Label() == n.Name() {
		return n.Label()
	}
	return fmt.Sprintf("%d/%s", n.ID.System(), n.Label())
}

// Find returns the node with a label or a name, in any case. Of several ports of one name the first counts.
func (s *System) Find(text string) (*Node, error) {
	var labels []string
	for _, t := range []NodeType{NodeGPU, NodeNET, NodeCPU, NodeNVS, NodeDEV, NodePCI, NodeNIC} {
		for _, n := range s.Nodes[t] {
			label := s.Label(n)
			if strings.EqualFold(text, label) || strings.EqualFold(text, n.Name()) {
				return n, nil
			}
			if label != n.Name() {
				labels = append(labels, label)
			}
		}
	}
	return nil, fmt.Errorf("no %s in this system (%sknown: %s)", strconv.Quote(text),
		wording.DidYouMean(text, labels), wording.Line(list(labels)))
}

// list joins names, but not so many that they fill the screen.
func list(names []string) string {
	const most = 24
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// BusID is the ID of a PCI device in the form 0000:3b:00.0.
func (id ID) BusID() string {
	n := id.Local() &^ mloPartMask
	return fmt.Sprintf("%04x:%02x:%02x.%x", n>>20, n>>12&0xff, n>>4&0xff, n&0xf)
}
