package tuning

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// readDumpedTuning reads NCCL's tables as its own arrays.
func readDumpedTuning(name string, data []byte) (*Set, error) {
	var f struct {
		NCCL  string `json:"nccl"`
		Nodes map[string]struct {
			NNodes           int                                  `json:"nNodes"`
			NRanks           int                                  `json:"nRanks"`
			NChannels        int                                  `json:"nChannels"`
			NVLSChannels     int                                  `json:"nvlsChannels"`
			NVLS             int                                  `json:"nvlsSupport"`
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
	version, err := readRelease(name, f.NCCL)
	if err != nil {
		return nil, err
	}
	set := &Set{NCCL: version, Source: "NCCL's own tables"}
	for hosts, n := range f.Nodes {
		if _, err := strconv.Atoi(hosts); err != nil {
			return nil, fmt.Errorf("%s: nodes: %q is not a number of hosts", name, hosts)
		}
		set.Tunings = append(set.Tunings, &Tuning{
			NCCL:   version,
			NNodes: n.NNodes, NRanks: n.NRanks, NChannels: n.NChannels, NVLSChannels: n.NVLSChannels,
			NVLS: n.NVLS != 0, MinCompCap: n.MinCompCap, CPUArch: n.CPUArch,
			MinLocalRanks: n.MinLocalRanks, MinNetBW: n.MinNetBW, RingNVLink: n.RingNVLink,
			MaxThreads: n.MaxThreads, ThreadThresholds: n.ThreadThresholds, Latencies: n.Lat, Bandwidths: n.Bw,
		})
	}
	return set, nil
}
