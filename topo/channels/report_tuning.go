package channels

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cnum"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// Names as NCCL's log prints them.
var (
	ncclAlgos  = upper(nccl.Algos.Known)
	ncclProtos = upper(nccl.Protos.Known)
)

func upper(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strings.ToUpper(n)
	}
	return out
}

// Sizes in TuningReport are the powers of two between these exponents.
const (
	minReportedSize = 3
	maxReportedSize = 34
)

// TuningReport is NCCL's cost model of a system for JSON: tuning.Read reads it back.
type TuningReport struct {
	NCCL   string                `json:"nccl"`
	Sizes  string                `json:"sizes"`
	Algos  []string              `json:"algos"`
	Protos []string              `json:"protos"`
	Colls  []string              `json:"colls"`
	Nodes  map[string]NodeTuning `json:"nodes"` // by number of hosts
}

// NodeTuning is the cost model for one number of hosts.
type NodeTuning struct {
	NHosts             int                                       `json:"nHosts"`
	NNodes             int                                       `json:"nNodes"`
	NRanks             int                                       `json:"nRanks"`
	NChannels          int                                       `json:"nChannels"`
	NVLSChannels       int                                       `json:"nvlsChannels"`
	P2PChannels        int                                       `json:"p2pnChannels"`
	P2PChannelsPerPeer int                                       `json:"p2pnChannelsPerPeer"`
	NVLSSupport        int                                       `json:"nvlsSupport"`
	CollNet            bool                                      `json:"collNet,omitempty"`
	CollNetHeads       int                                       `json:"collNetHeads,omitempty"`
	MinLocalRanks      int                                       `json:"minLocalRanks"`
	RingNVLink         bool                                      `json:"ringNvlink,omitempty"`
	MinCompCap         int                                       `json:"minCompCap"`
	MaxCompCap         int                                       `json:"maxCompCap"`
	CPUArch            topo.CPUArch                              `json:"cpuArch"`
	CPUVendor          topo.CPUVendor                            `json:"cpuVendor"`
	MinNetBW           topo.Float32                              `json:"minNetBw"`
	AllNVLink          int                                       `json:"isAllNvlink"`
	Graphs             map[string]Graph                          `json:"graphs"`
	MaxThreads         nccl.PerCell[int]                         `json:"maxThreads"`
	ThreadThresholds   nccl.PerCell[int64]                       `json:"threadThresholds"`
	Latencies          [nccl.NumColls]nccl.PerCell[topo.Float32] `json:"lat"`
	Bandwidths         [nccl.NumColls]nccl.PerCell[topo.Float32] `json:"bw"`
	Pipe1              map[string]CollTimes                      `json:"pipe1"` // one operation
	Pipe4              map[string]CollTimes                      `json:"pipe4"` // four pipelined ones
}

// CollTimes holds predicted microseconds of one collective by "ALGO/PROTO", and NCCL's choice, for each size.
type CollTimes struct {
	Times  map[string][]topo.Float32 `json:"times"`
	Choice []ChoiceEntry             `json:"choice"`
}

// ChoiceEntry is ["ALGO/PROTO", microseconds, channels, warps].
type ChoiceEntry tuning.Choice

// MarshalJSON writes null where NCCL has nothing to choose from.
func (c ChoiceEntry) MarshalJSON() ([]byte, error) {
	if c.Algo < 0 {
		return []byte("null"), nil
	}
	return json.Marshal([]any{cellName(c.Algo, c.Proto), topo.Float32(c.Micros), c.Channels, c.Warps})
}

func cellName(algo nccl.Algo, proto nccl.Proto) string {
	return ncclAlgos[algo] + "/" + ncclProtos[proto]
}

// ReportTuning computes the cost model for several numbers of hosts. A communicator of one rank is left out, since NCCL has nothing to tune there.
func ReportTuning(doc *topo.Document, opt TuneOptions, hosts []int) (*TuningReport, error) {
	r := &TuningReport{
		NCCL:  opt.NCCL.String(),
		Sizes: "2^" + strconv.Itoa(minReportedSize) + "..2^" + strconv.Itoa(maxReportedSize) + " bytes",
		Algos: ncclAlgos, Protos: ncclProtos, Colls: nccl.Colls.Words,
		Nodes: map[string]NodeTuning{},
	}
	comms, err := Tune(doc, opt, hosts...)
	if err != nil {
		return nil, err
	}
	for _, c := range comms {
		if c.Facts.NRanks > 1 {
			r.Nodes[strconv.Itoa(c.Hosts)] = c.report()
		}
	}
	return r, nil
}

func (c *CommTuning) report() NodeTuning {
	t, f := c.Tuning, c.Facts
	n := NodeTuning{
		NHosts: c.Hosts, NNodes: f.NNodes, NRanks: f.NRanks, NChannels: t.NChannels, NVLSChannels: t.NVLSChannels,
		P2PChannels: c.P2PChannels, P2PChannelsPerPeer: c.P2PChannelsPerPeer, NVLSSupport: cnum.Bit(t.NVLS),
		CollNet: t.CollNet, CollNetHeads: t.CollNetHeads, MinLocalRanks: f.MinLocalRanks, RingNVLink: t.RingNVLink,
		MinCompCap: f.MinCompCap, MaxCompCap: f.MaxCompCap, CPUArch: f.CPUArch, CPUVendor: f.CPUVendor,
		MinNetBW: topo.Float32(f.MinNetBW), AllNVLink: cnum.Bit(c.AllNVLink),
		Graphs:     map[string]Graph{"ring": c.Graphs.Ring, "tree": c.Graphs.Tree, "nvls": c.Graphs.NVLS},
		MaxThreads: t.MaxThreads, ThreadThresholds: t.ThreadThresholds,
		Pipe1: collTimes(t, 1), Pipe4: collTimes(t, 4),
	}
	if t.CollNet {
		n.Graphs["collnetChain"], n.Graphs["collnetDirect"] = c.Graphs.CollNetChain, c.Graphs.CollNetDirect
	}
	for name, g := range n.Graphs {
		g.Intra, g.Inter = nil, nil
		n.Graphs[name] = g
	}
	for coll := range t.Latencies {
		for a, p := range nccl.Cells {
			n.Latencies[coll][a][p] = topo.Float32(t.Latencies[coll][a][p])
			n.Bandwidths[coll][a][p] = topo.Float32(t.Bandwidths[coll][a][p])
		}
	}
	return n
}

func collTimes(t *tuning.Tuning, pipeOps int) map[string]CollTimes {
	all := map[string]CollTimes{}
	for coll, name := range nccl.Colls.Words {
		c := CollTimes{Times: map[string][]topo.Float32{}}
		for size := minReportedSize; size <= maxReportedSize; size++ {
			table := t.Table(nccl.Coll(coll), 1<<size, pipeOps)
			for a, p := range nccl.Cells {
				if us := table[a][p]; us >= 0 {
					cell := cellName(a, p)
					c.Times[cell] = append(c.Times[cell], topo.Float32(us))
				}
			}
			c.Choice = append(c.Choice, ChoiceEntry(t.ChooseFrom(table, 1<<size)))
		}
		all[name] = c
	}
	return all
}
