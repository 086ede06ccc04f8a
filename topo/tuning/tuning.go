package tuning

import "github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"

// Tuning is NCCL's cost model for one communicator size, as plain data: what is left of the topology once NCCL has
// decided on its channels. It answers Table and Choose without anything else, so it can be read from a file on a
// machine without a GPU, whose field names are those of channels.NodeTuning. All values are equal on all ranks of a
// communicator.
//
// The zero value offers no algorithm at all.
type Tuning struct {
	NCCL nccl.Version `json:"-"` // whose rules hold

	NNodes int `json:"nNodes"` // nodes as NCCL counts them (ranks that share a ring segment), >= 1
	NRanks int `json:"nRanks"` // ranks of the communicator, >= 1

	NChannels    int `json:"nChannels"`    // channels that ring, tree and PAT may use, 1..64
	NVLSChannels int `json:"nvlsChannels"` // channels that NVLS and NVLSTree use; 0 when there is no NVLS

	MaxLocalRanks int `json:"-"`             // most ranks on one node; 0 means NRanks/NNodes
	MinLocalRanks int `json:"minLocalRanks"` // fewest, likewise
	MinCompCap    int `json:"minCompCap"`    // lowest compute capability, 10*major+minor: 80, 90, 100, ...
	CPUArch       int `json:"cpuArch"`       // 0 unknown, else ArchX86 or another number of NCCL's

	MinNetBW   float32 `json:"minNetBw"`   // GB/s of the slowest NIC in use; 0 without a network. Counts from nccl.Models on
	RingNVLink bool    `json:"ringNvlink"` // rings inside a node use NVLink alone. Counts from nccl.Models on

	NVLS         bool `json:"-"`            // multicast is usable on all ranks
	CollNet      bool `json:"collNet"`      // the network can reduce (SHARP) and it is enabled
	CollNetHeads int  `json:"collNetHeads"` // GPUs per node that talk to the reducing network

	// MaxThreads is the largest number of threads per block, ThreadThresholds the number of bytes per thread below
	// which NCCL takes away channels and then threads.
	MaxThreads       nccl.PerCell[int]   `json:"maxThreads"`
	ThreadThresholds nccl.PerCell[int64] `json:"threadThresholds"`

	// Latencies are microseconds, Bandwidths GB/s of algorithm bandwidth (bytes of the collective divided by time);
	// bandwidth 0 means that NCCL does not offer the cell.
	Latencies  [nccl.NumColls]nccl.PerCell[float32] `json:"lat"`
	Bandwidths [nccl.NumColls]nccl.PerCell[float32] `json:"bw"`
}

// Set holds the tunings of one system for several communicator sizes.
type Set struct {
	System  string       // what the system is, for people
	NCCL    nccl.Version // whose rules were applied, in all tunings
	Tunings []*Tuning    // ordered by NNodes, then NRanks
}

// For returns the tuning of a communicator of that many nodes and ranks, or nil when the set does not hold it.
// nRanks 0 accepts any number of ranks.
func (s *Set) For(nNodes, nRanks int) *Tuning {
	for _, t := range s.Tunings {
		if t.NNodes == nNodes && (nRanks == 0 || t.NRanks == nRanks) {
			return t
		}
	}
	return nil
}

func (t *Tuning) localRanks() int {
	if t.MaxLocalRanks > 0 {
		return t.MaxLocalRanks
	}
	if t.NNodes <= 0 {
		return 0
	}
	return (t.NRanks + t.NNodes - 1) / t.NNodes
}

func (t *Tuning) fewestLocalRanks() int {
	if t.MinLocalRanks > 0 {
		return t.MinLocalRanks
	}
	return t.NRanks / max(1, t.NNodes)
}
