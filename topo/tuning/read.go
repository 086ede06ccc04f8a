package tuning

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

const maxTuningFile = 64 << 20

// file is a Set as JSON.
type file struct {
	NCCL  string          `json:"nccl"`
	Nodes map[string]node `json:"nodes"` // by number of nodes
}

type node struct {
	Tuning
	NNodes int `json:"nNodes"`
	NRanks int `json:"nRanks"`
	NVLS   int `json:"nvlsSupport"` // 1: multicast is usable
}

// MarshalJSON writes what Read reads.
func (s *Set) MarshalJSON() ([]byte, error) {
	f := file{NCCL: s.NCCL.String(), Nodes: map[string]node{}}
	for _, t := range s.Tunings {
		n := node{Tuning: *t, NNodes: t.Nodes, NRanks: t.Ranks}
		if t.NVLS {
			n.NVLS = 1
		}
		f.Nodes[strconv.Itoa(t.Nodes)] = n
	}
	return json.Marshal(f)
}

// Read reads NCCL's tables as `tunefit topo tuning --json` prints them: an object "nodes" keyed by number of hosts,
// with arrays "lat" and "bw" per collective, algorithm and protocol. name is for messages. What is wrong with the
// values is reported together, up to 20.
func Read(r io.Reader, name string) (*Set, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxTuningFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > maxTuningFile {
		return nil, fmt.Errorf("%s: larger than %d MiB, not a tuning file", name, maxTuningFile>>20)
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, wording.JSONErrorAt(name, data, err)
	}
	if f.Nodes == nil {
		return nil, fmt.Errorf(`%s: no "nodes" (needed: what tunefit topo tuning --json prints)`, name)
	}
	version, err := nccl.ParseVersion(cmp.Or(f.NCCL, nccl.Reference.String()))
	if err != nil {
		return nil, fmt.Errorf("%s: nccl: %w", name, err)
	}
	set := &Set{NCCL: version}
	for hosts, n := range f.Nodes {
		if _, err := strconv.Atoi(hosts); err != nil {
			return nil, fmt.Errorf("%s: nodes: %s is not a number of hosts", name, wording.Quote(hosts))
		}
		n.NCCL, n.Comm, n.Tuning.NVLS = version, nccl.Comm{Nodes: n.NNodes, Ranks: n.NRanks}, n.NVLS != 0
		set.Tunings = append(set.Tunings, &n.Tuning)
	}
	slices.SortFunc(set.Tunings, func(a, b *Tuning) int { return a.Compare(b.Comm) })
	return set, validate(name, set)
}
