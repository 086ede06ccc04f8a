package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// every takes each n-th file: package topo compares all of them, and here the way through the command line counts.
func every(n int, files []string) (some []string) {
	for i := 0; i < len(files); i += n {
		some = append(some, files[i])
	}
	return some
}

// ncclLinks are tables of what NCCL uses, [source][target].
type ncclLinks struct {
	Ranks        []int    `json:"ranks"`
	Nets         []string `json:"nets"`
	Read         [][]int  `json:"read"`
	Intermediate [][]int  `json:"intermediate"`
	TransportP2P [][]int  `json:"transportP2p"`
	TransportSHM [][]int  `json:"transportShm"`
	GDRRecv      [][]int  `json:"gdrRecv"`
	GDRSend      [][]int  `json:"gdrSend"`
	GPUGPU       [][]path `json:"gpuGpu"`
	GPUNet       [][]path `json:"gpuNet"`
}

// path is NCCL's [type, hops, bandwidth].
type path struct {
	kind topo.PathType
	gbps float32
}

func (p *path) UnmarshalJSON(data []byte) error {
	var hops int
	return json.Unmarshal(data, &[]any{&p.kind, &hops, &p.gbps})
}

// list is what tunefit should print.
func (n *ncclLinks) list() (all []link) {
	for i, rank := range n.Ranks {
		from := fmt.Sprint("gpu", rank)
		for j, peer := range n.Ranks {
			uses := "network"
			switch {
			case n.TransportP2P[i][j] != 0:
				uses = "P2P"
				if via := n.Intermediate[i][j]; via >= 0 {
					uses += fmt.Sprint(" via gpu", via)
				}
				if n.Read[i][j] != 0 {
					uses += ", reading"
				}
			case n.TransportSHM[i][j] != 0:
				uses = "SHM"
			}
			if i != j {
				all = append(all, link{from, fmt.Sprint("gpu", peer), n.GPUGPU[i][j].kind,
					topo.Float32(n.GPUGPU[i][j].gbps), uses})
			}
		}
		for j, net := range n.Nets {
			uses := map[[2]bool]string{{true, true}: "GPUDirect RDMA", {true, false}: "GPUDirect RDMA for sending",
				{false, true}: "GPUDirect RDMA for receiving", {}: "no GPUDirect RDMA"}[[2]bool{n.GDRSend[i][j] != 0,
				n.GDRRecv[i][j] != 0}]
			all = append(all, link{from, net, n.GPUNet[i][j].kind, topo.Float32(n.GPUNet[i][j].gbps), uses})
		}
	}
	return slices.DeleteFunc(all, func(l link) bool { return l.Path == topo.PathDIS })
}

func TestTopoLinksAgreeWithNCCL(t *testing.T) {
	var total nccltest.Score
	for _, file := range every(4, nccltest.Files(t, "p2p_gdr.json")) {
		var answers map[string]json.RawMessage
		nccltest.LoadJSON(t, file, &answers)
		for variant, changed := range answers {
			if strings.Contains(variant, "ORACLE_") {
				continue // no variable of NCCL's
			}
			t.Run(nccltest.System(file)+" "+variant, func(t *testing.T) {
				for name, value := range nccltest.Environment(variant) {
					if value != "" {
						t.Setenv(name, value)
					}
				}
				var want ncclLinks
				if err := errors.Join(json.Unmarshal(answers["default"], &want),
					json.Unmarshal(changed, &want)); err != nil {
					t.Fatal(err)
				}
				var got []link
				out, _ := tunefit(t, cli.ExitOK, "topo", "links", nccltest.Topology(file), "--json")
				if err := json.Unmarshal([]byte(out), &got); err != nil {
					t.Fatal(err)
				}
				list := want.list()
				if len(got) != len(list) {
					t.Fatalf("%d pairs, NCCL has %d", len(got), len(list))
				}
				for i, l := range list {
					nccltest.Same(t, &total, "link", l.From+" "+l.To, l, got[i])
				}
			})
		}
	}
	t.Logf("%s values agree", total)
}

func TestTopoGraphsAgreeWithNCCL(t *testing.T) {
	var total nccltest.Score
	for _, file := range every(8, nccltest.Files(t, "graphs.json")) {
		var want, got map[string]channels.Found
		nccltest.LoadJSON(t, file, &want)
		out, _ := tunefit(t, cli.ExitOK, "topo", "graphs", nccltest.Topology(file), "--json")
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		if diff := nccltest.Compare(&total, nccltest.AsJSON(t, got), nccltest.AsJSON(t, want)); diff != "" {
			t.Errorf("%s: %s", nccltest.System(file), diff)
		}
	}
	t.Logf("%s values agree", total)
}

func TestTopoTuningAgreesWithNCCL(t *testing.T) {
	var total nccltest.Score
	for _, file := range every(8, nccltest.Files(t, "tuning.json")) {
		read := func(text []byte) *tuning.Set {
			set := new(tuning.Set)
			if err := set.UnmarshalJSON(text); err != nil {
				t.Fatal(err)
			}
			return set
		}
		out, _ := tunefit(t, cli.ExitOK, "topo", "tuning", nccltest.Topology(file), "--json")
		printed := read([]byte(out))
		doc, err := topo.ReadFile(nccltest.Topology(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range read(nccltest.Read(t, file)).Tunings {
			got := printed.For(want.Comm)
			if got == nil {
				t.Fatalf("%s: nothing for %d nodes", file, want.Nodes)
			}
			where := fmt.Sprintf("%s, %d nodes", nccltest.System(file), want.Nodes)
			nccltest.Same(t, &total, "channels", where, [2]int{want.NChannels, want.NVLSChannels},
				[2]int{got.NChannels, got.NVLSChannels})
			nccltest.Same(t, &total, "threads", where, want.MaxThreads, got.MaxThreads)
			nccltest.Same(t, &total, "thread thresholds", where, want.ThreadThresholds, got.ThreadThresholds)
			nccltest.Same(t, &total, "latencies", where, want.Latencies, got.Latencies)
			derived, err := channels.Tune(doc, channels.TuneOptions{Settings: topo.Settings{NCCL: printed.NCCL}},
				want.Nodes)
			if err != nil {
				t.Fatal(err)
			}
			for coll, bandwidths := range derived[0].Tuning.Bandwidths {
				// NCCL was asked without the exchange of tree patterns between ranks.
				want.Bandwidths[coll][nccl.AlgoTree] = bandwidths[nccl.AlgoTree]
			}
			nccltest.Same(t, &total, "bandwidths", where, want.Bandwidths, got.Bandwidths)
		}
	}
	t.Logf("%s values agree", total)
}
