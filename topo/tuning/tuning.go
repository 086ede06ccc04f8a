// Package tuning holds NCCL's estimates as plain data. A Tuning has the latencies and bandwidths of one communicator.
// Table computes the predicted times that NCCL hands to a tuner, and Choose what NCCL would run, by the rules of the
// Tuning's release. Read reads what tunefit topo tuning --json prints.
//
// The package knows no topology, so that a tuner can use it alone. Package channels derives a Tuning from a topology.
// Methods do not change a Tuning, so many goroutines may use one.
package tuning

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
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

// validate checks what Table and Choose rely on.
func validate(name string, set *Set) error {
	var errs []error
	bad := func(t *Tuning, format string, args ...any) {
		if len(errs) < 20 {
			errs = append(errs, fmt.Errorf("%s: %d nodes: %s", name, t.Nodes, fmt.Sprintf(format, args...)))
		}
	}
	if len(set.Tunings) == 0 {
		return fmt.Errorf("%s: holds no tuning", name)
	}
	for i, t := range set.Tunings {
		if t.Nodes < 1 || t.Ranks < t.Nodes {
			bad(t, "%d ranks on %d nodes is impossible", t.Ranks, t.Nodes)
		}
		if t.NChannels < 1 || t.NChannels > nccl.MaxChannels || t.NVLSChannels < 0 ||
			t.NVLSChannels > nccl.MaxChannels {
			bad(t, "%d channels, %d for NVLS; 1..%d and 0..%d are possible", t.NChannels, t.NVLSChannels,
				nccl.MaxChannels, nccl.MaxChannels)
		}
		if i > 0 && set.Tunings[i-1].Comm == t.Comm {
			bad(t, "given twice with %d ranks", t.Ranks)
		}
		for a, p := range nccl.Cells {
			if n := t.MaxThreads[a][p]; n < 0 || n > nccl.MaxThreads {
				bad(t, "%s/%s: %d threads; 0..%d are possible", a, p, n, nccl.MaxThreads)
			}
			if n := t.ThreadThresholds[a][p]; n < 0 || n > math.MaxInt32 {
				bad(t, "%s/%s: thread threshold %d is not a 31-bit number", a, p, n)
			}
			for c := range nccl.Coll(nccl.NumColls) {
				lat, bw := t.Latencies[c][a][p], t.Bandwidths[c][a][p]
				if !(lat >= 0) || !(bw >= 0) {
					bad(t, "%s %s/%s: latency %v, bandwidth %v; both must be 0 or more", c, a, p, lat, bw)
				}
			}
		}
	}
	return errors.Join(errs...)
}
