package tuning

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

const maxTuningFile = 64 << 20

// Read reads NCCL's tables as `tunefit topo tuning --json` prints them: an object "nodes" keyed by number of hosts, with
// arrays "lat" and "bw" per collective, algorithm and protocol. name is for messages. What is wrong with the values is
// reported together, up to 20.
func Read(r io.Reader, name string) (*Set, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxTuningFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > maxTuningFile {
		return nil, fmt.Errorf("%s: larger than %d MiB, not a tuning file", name, maxTuningFile>>20)
	}
	var f struct {
		NCCL  string `json:"nccl"`
		Nodes map[string]struct {
			NNodes           int                                  `json:"nNodes"`
			NRanks           int                                  `json:"nRanks"`
			NChannels        int                                  `json:"nChannels"`
			NVLSChannels     int                                  `json:"nvlsChannels"`
			NVLS             int                                  `json:"nvlsSupport"`
			CollNet          bool                                 `json:"collNet"`
			CollNetHeads     int                                  `json:"collNetHeads"`
			MinCompCap       int                                  `json:"minCompCap"`
			MinLocalRanks    int                                  `json:"minLocalRanks"`
			MinNetBW         float32                              `json:"minNetBw"`
			RingNVLink       bool                                 `json:"ringNvlink"`
			CPUArch          int                                  `json:"cpuArch"`
			MaxThreads       nccl.PerCell[int]                    `json:"maxThreads"`
			ThreadThresholds nccl.PerCell[int64]                  `json:"threadThresholds"`
			Lat              [nccl.NumColls]nccl.PerCell[float32] `json:"lat"`
			Bw               [nccl.NumColls]nccl.PerCell[float32] `json:"bw"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, jsonError(name, data, err)
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
			return nil, fmt.Errorf("%s: nodes: %q is not a number of hosts", name, hosts)
		}
		set.Tunings = append(set.Tunings, &Tuning{
			NCCL:   version,
			NNodes: n.NNodes, NRanks: n.NRanks, NChannels: n.NChannels, NVLSChannels: n.NVLSChannels,
			NVLS: n.NVLS != 0, CollNet: n.CollNet, CollNetHeads: n.CollNetHeads, MinCompCap: n.MinCompCap, CPUArch: n.CPUArch,
			MinLocalRanks: n.MinLocalRanks, MinNetBW: n.MinNetBW, RingNVLink: n.RingNVLink,
			MaxThreads: n.MaxThreads, ThreadThresholds: n.ThreadThresholds, Latencies: n.Lat, Bandwidths: n.Bw,
		})
	}
	slices.SortFunc(set.Tunings, func(a, b *Tuning) int {
		return cmp.Or(cmp.Compare(a.NNodes, b.NNodes), cmp.Compare(a.NRanks, b.NRanks))
	})
	return set, validate(name, set)
}
