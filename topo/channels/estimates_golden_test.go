package channels

import (
	"fmt"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

type goldenNode struct {
	NNodes           int                                  `json:"nNodes"`
	NRanks           int                                  `json:"nRanks"`
	NChannels        int                                  `json:"nChannels"`
	NVLSChannels     int                                  `json:"nvlsChannels"`
	NVLSSupport      int                                  `json:"nvlsSupport"`
	MinCompCap       int                                  `json:"minCompCap"`
	MaxCompCap       int                                  `json:"maxCompCap"`
	CPUArch          int                                  `json:"cpuArch"`
	CPUVendor        topo.CPUVendor                       `json:"cpuVendor"`
	MinNetBW         float32                              `json:"minNetBw"`
	Graphs           Graphs                               `json:"graphs"`
	MaxThreads       nccl.PerCell[int]                    `json:"maxThreads"`
	ThreadThresholds nccl.PerCell[int64]                  `json:"threadThresholds"`
	Lat              [nccl.NumColls]nccl.PerCell[float32] `json:"lat"`
	Bw               [nccl.NumColls]nccl.PerCell[float32] `json:"bw"`
}

// facts leaves MaxTreePattern empty: the reference was made without the exchange of tree patterns between ranks.
func (n goldenNode) facts() facts {
	return facts{
		Facts: tuning.Facts{
			Comm: nccl.Comm{Nodes: n.NNodes, Ranks: n.NRanks}, MinCompCap: n.MinCompCap, CPUArch: n.CPUArch,
			MinNetBW: n.MinNetBW, NVLS: n.NVLSSupport != 0,
		},
		MaxCompCap: n.MaxCompCap, CPUVendor: n.CPUVendor,
	}
}

func TestDeriveTuningAgreesWithNCCL(t *testing.T) {
	var a nccltest.Score
	for _, file := range nccltest.Files(t, "tuning.json") {
		var answers struct{ Nodes map[string]goldenNode }
		nccltest.LoadJSON(t, file, &answers)
		for hosts, n := range answers.Nodes {
			where := nccltest.System(file) + " " + hosts
			got := deriveTuning(n.Graphs, n.facts())
			nccltest.Same(t, &a, "channels", where, n.NChannels, got.NChannels)
			nccltest.Same(t, &a, "NVLS channels", where, n.NVLSChannels, got.NVLSChannels)
			nccltest.Same(t, &a, "max threads", where, n.MaxThreads, got.MaxThreads)
			nccltest.Same(t, &a, "thread thresholds", where, n.ThreadThresholds, got.ThreadThresholds)
			for c := range nccl.Coll(nccl.NumColls) {
				for al := range nccl.Algo(nccl.NumAlgos) {
					for p := range nccl.Proto(nccl.NumProtos) {
						at := fmt.Sprintf("%s %s %s/%s", where, c, al, p)
						nccltest.Same(t, &a, "latency", at, n.Lat[c][al][p], got.Latencies[c][al][p])
						nccltest.Same(t, &a, "bandwidth", at, n.Bw[c][al][p], got.Bandwidths[c][al][p])
					}
				}
			}
		}
	}
	t.Logf("%s values agree", a)
}
