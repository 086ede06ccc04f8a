// Package tuning holds NCCL's estimates as plain data. A Tuning has the latencies and bandwidths of one communicator.
// Table computes the predicted times that NCCL hands to a tuner, and Choose what NCCL would run, by the rules of the
// Tuning's release.
//
// The package knows no topology, so that a tuner can use it alone. Package channels derives a Tuning from a topology.
// Methods do not change a Tuning, so many goroutines may use one.
package tuning

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Facts is what NCCL knows about a communicator, apart from its channels. All ranks agree on it.
type Facts struct {
	NCCL          nccl.Version `json:"-"` // whose rules hold
	nccl.Comm     `json:"-"`   // nodes as NCCL counts them (ranks that share a ring segment), at least 1
	MinLocalRanks int          `json:"minLocalRanks"` // fewest ranks on a node; 0 means Ranks/Nodes
	MaxLocalRanks int          `json:"-"`             // most ranks on a node; 0 means Ranks/Nodes, rounded up
	MinCompCap    int          `json:"minCompCap"`    // lowest compute capability, 10*major+minor: 80, 90, 100, ...
	CPUArch       int          `json:"cpuArch"`       // 0 unknown, else ArchX86 or another number of NCCL's
	// GB/s of the slowest NIC in use; 0 without a network. Counts from nccl.Models on
	MinNetBW float32 `json:"minNetBw"`

	NVLS         bool `json:"-"`            // multicast is usable on all ranks
	CollNet      bool `json:"collNet"`      // the network can reduce (SHARP) and it is enabled
	CollNetHeads int  `json:"collNetHeads"` // GPUs per node that talk to the reducing network
}

// LocalRanks is the most ranks on a node.
func (f *Facts) LocalRanks() int {
	return cmp.Or(f.MaxLocalRanks, (f.Ranks+f.Nodes-1)/max(1, f.Nodes))
}

// FewestLocalRanks is the fewest ranks on a node.
func (f *Facts) FewestLocalRanks() int {
	return cmp.Or(f.MinLocalRanks, f.Ranks/max(1, f.Nodes))
}

// Tuning holds NCCL's estimates for one communicator as plain data: what is left of the topology once NCCL has
// decided on its channels. It answers Table and Choose alone, on a machine without a GPU. All values are equal on all
// ranks.
//
// The zero value offers no algorithm at all.
type Tuning struct {
	Facts

	NChannels    int  `json:"nChannels"`    // channels that ring, tree and PAT may use, 1..64
	NVLSChannels int  `json:"nvlsChannels"` // channels that NVLS and NVLSTree use; 0 when there is no NVLS
	RingNVLink   bool `json:"ringNvlink"`   // rings inside a node use NVLink alone. Counts from nccl.Models on

	// MaxThreads is the largest number of threads per block, ThreadThresholds the number of bytes per thread below
	// which NCCL takes away channels and then threads.
	MaxThreads       nccl.PerCell[int]   `json:"maxThreads"`
	ThreadThresholds nccl.PerCell[int64] `json:"threadThresholds"`

	// Latencies are microseconds, Bandwidths GB/s of algorithm bandwidth (bytes of the collective divided by time);
	// bandwidth 0 means that NCCL does not offer the cell.
	Latencies  [nccl.NumColls]nccl.PerCell[float32] `json:"lat"`
	Bandwidths [nccl.NumColls]nccl.PerCell[float32] `json:"bw"`
}

// Set holds the tunings of one system for several communicators.
type Set struct {
	System  string       // what the system is, for people
	NCCL    nccl.Version // whose rules were applied, in all tunings
	Tunings []*Tuning    // in the order of communicators
}

// For returns the tuning of a communicator, or nil when the set does not hold it. Ranks of 0 accept any number of
// ranks.
func (s *Set) For(comm nccl.Comm) *Tuning {
	for _, t := range s.Tunings {
		if t.Nodes == comm.Nodes && (comm.Ranks == 0 || t.Ranks == comm.Ranks) {
			return t
		}
	}
	return nil
}

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

// MarshalJSON writes the tunings by number of nodes.
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

// UnmarshalJSON reads what MarshalJSON writes, and NCCL's own answers in that form.
func (s *Set) UnmarshalJSON(text []byte) error {
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	var err error
	if s.NCCL, err = nccl.ParseVersion(cmp.Or(f.NCCL, nccl.Reference.String())); err != nil {
		return err
	}
	for _, n := range f.Nodes {
		n.NCCL, n.Comm, n.Tuning.NVLS = s.NCCL, nccl.Comm{Nodes: n.NNodes, Ranks: n.NRanks}, n.NVLS != 0
		s.Tunings = append(s.Tunings, &n.Tuning)
	}
	slices.SortFunc(s.Tunings, func(a, b *Tuning) int { return a.Compare(b.Comm) })
	return nil
}
