package topo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// snapshot is one stage of paths.json: NCCL's graph with its paths, from which a search can start without the code
// that computes paths.
type snapshot struct {
	Inter   int                                     `json:"inter"`
	MaxBw   float32                                 `json:"maxBw"`
	TotalBw float32                                 `json:"totalBw"`
	Nodes   []snapshotNode                          `json:"nodes"`
	Paths   map[string]map[string][]json.RawMessage `json:"paths"`
}

type snapshotNode struct {
	Name     string              `json:"name"`
	Type     string              `json:"type"`
	Rank     int                 `json:"rank"`
	Dev      int                 `json:"dev"`
	SM       int                 `json:"sm"`
	Arch     int                 `json:"arch"`
	Vendor   int                 `json:"vendor"`
	ASIC     string              `json:"asic"`
	Port     int                 `json:"port"`
	Bw       float32             `json:"bw"`
	Latency  float32             `json:"latency"`
	LocalGPU int                 `json:"localGpu"`
	Links    [][]json.RawMessage `json:"links"`
}

var snapshotLinkKind = map[string]int{"LOC": 0, "NVL": 1, "C2C": 3, "PCI": 4, "SYS": 9, "NET": 10}

func readSnapshot(t testing.TB, file string) (single, multi snapshot) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Stages struct{ Single, Multi snapshot }
	}
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	return f.Stages.Single, f.Stages.Multi
}

func decode[T any](t testing.TB, raw json.RawMessage) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

func (f *snapshot) system(t testing.TB) *searchSystem {
	t.Helper()
	s := &searchSystem{inter: f.Inter != 0, maxBw: f.MaxBw, totalBw: f.TotalBw, cpuArch: -1, cpuVendor: -1}
	hosts := map[string]bool{}
	index := map[string]int{}
	byType := map[string][]int{}
	for i, n := range f.Nodes {
		index[n.Name] = i
		byType[n.Type] = append(byType[n.Type], i)
		node := searchNode{dev: n.Type == "DEV", cpu: n.Type == "CPU", compCap: n.SM, arch: n.Arch}
		node.intelX86 = node.cpu && n.Arch == CPUArchX86 && n.Vendor == CPUVendorIntel
		for _, l := range n.Links {
			kind := snapshotLinkKind[decode[string](t, l[0])]
			id := len(s.links)
			s.links = append(s.links, searchLink{kind: kind, from: i, to: decode[int](t, l[2]), bw: decode[float32](t, l[1])})
			node.links = append(node.links, id)
			if kind == pathPIX {
				node.pciUplink = append(node.pciUplink, id)
			}
		}
		s.nodes = append(s.nodes, node)
		_, local, _ := strings.Cut(n.Name, "/")
		host, id, _ := strings.Cut(local, "-")
		switch n.Type {
		case "DEV":
			s.devs++
			hosts[host] = true
			if s.minCC == 0 || n.SM < s.minCC {
				s.minCC = n.SM
			}
		case "NVS":
			s.nvs++
		case "CPU":
			if s.cpuArch == -1 {
				s.cpuArch, s.cpuVendor = n.Arch, n.Vendor
			}
		case "NET":
			asic, err := strconv.ParseUint(strings.TrimPrefix(n.ASIC, "0x"), 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			sysID, _ := strconv.ParseInt(host, 16, 64)
			localID, _ := strconv.ParseInt(id, 16, 64)
			s.nets = append(s.nets, searchNet{id: sysID<<56 + localID, asic: asic, port: n.Port, rail: -1, plane: -1,
				bw: n.Bw, latency: n.Latency})
		}
	}
	s.hosts = len(hosts)
	for _, i := range byType["GPU"] {
		n := f.Nodes[i]
		s.gpus = append(s.gpus, searchGPU{rank: n.Rank, dev: n.Dev, node: s.links[s.nodes[i].links[0]].to})
	}
	paths := func(from, to string) (all [][]searchPath) {
		for _, i := range byType[from] {
			row := make([]searchPath, len(byType[to]))
			for j, raw := range f.Paths[f.Nodes[i].Name][to] {
				p := decode[[]json.RawMessage](t, raw)
				row[j].kind = pathRank(decode[string](t, p[0]))
				row[j].bw = decode[float32](t, p[2])
				if len(p) < 4 {
					continue // nodes are not listed
				}
				row[j].links = s.linksAlong(append([]int{i}, decode[[]int](t, p[3])...))
			}
			all = append(all, row)
		}
		return all
	}
	s.gpuGPU, s.gpuNet, s.netGPU = paths("GPU", "GPU"), paths("GPU", "NET"), paths("NET", "GPU")
	if s.nvs > 0 {
		for _, row := range paths("GPU", "NVS") {
			s.gpuNVS = append(s.gpuNVS, row[0])
		}
		s.nvsGPU = paths("NVS", "GPU")[0]
		for g := range s.nvsGPU { // the nodes are those of the way there
			nodes := []int{byType["NVS"][0]}
			for _, l := range slices.Backward(s.gpuNVS[g].links) {
				nodes = append(nodes, s.links[l].from)
			}
			s.nvsGPU[g].links = s.linksAlong(nodes)
		}
	}
	s.finish()
	for n, i := range byType["NET"] {
		if want := f.Nodes[i].LocalGPU; s.nets[n].localGPU != want {
			t.Errorf("%s: local GPU %d, NCCL %d", f.Nodes[i].Name, s.nets[n].localGPU, want)
		}
	}
	return s
}

// linksAlong finds the links of a path from its nodes. Where two nodes have several links in common it picks the one
// that NCCL's breadth-first search from the far end would have taken: best type of the path so far, then widest,
// then first.
func (s *searchSystem) linksAlong(nodes []int) []int {
	links := make([]int, len(nodes)-1)
	kind, bw := 0, float32(5000)
	for i := len(nodes) - 2; i >= 0; i-- {
		near, far := nodes[i], nodes[i+1]
		best := -1
		bestKind, bestBw := 0, float32(0)
		for _, l := range s.nodes[far].links {
			if s.links[l].to != near {
				continue
			}
			k, b := max(kind, s.links[l].kind), min(bw, s.links[l].bw)
			if best < 0 || k < bestKind || k == bestKind && b > bestBw {
				best, bestKind, bestBw = l, k, b
			}
		}
		kind, bw = bestKind, bestBw
		for _, l := range s.nodes[near].links {
			if s.links[l].to == far && s.links[l].kind == s.links[best].kind {
				links[i] = l
				break
			}
		}
	}
	return links
}

type goldenGraphs struct {
	NVLSSupport int     `json:"nvlsSupport"`
	MaxBw       float32 `json:"maxBw"`
	TotalBw     float32 `json:"totalBw"`
	ChannelGraphs
}

func compareGraph(a *tally, kind, where string, want, got ChannelGraph) {
	at := where + " " + kind
	same(a, kind+" pattern", at, want.Pattern, got.Pattern)
	same(a, kind+" nChannels", at, want.NChannels, got.NChannels)
	same(a, kind+" bwIntra", at, want.BwIntra, got.BwIntra)
	same(a, kind+" bwInter", at, want.BwInter, got.BwInter)
	same(a, kind+" typeIntra", at, want.TypeIntra, got.TypeIntra)
	same(a, kind+" typeInter", at, want.TypeInter, got.TypeInter)
	same(a, kind+" latencyInter", at, want.LatencyInter, got.LatencyInter)
	same(a, kind+" crossNic", at, want.CrossNIC, got.CrossNIC)
	same(a, kind+" sameChannels", at, want.SameChannels, got.SameChannels)
	same(a, kind+" nHops", at, want.NHops, got.NHops)
	same(a, kind+" min/max channels", at, [2]int{want.MinChannels, want.MaxChannels}, [2]int{got.MinChannels, got.MaxChannels})
	a.check(kind+" order", slices.EqualFunc(want.Intra, got.Intra, slices.Equal), func() string {
		return fmt.Sprintf("%s: NCCL %v, here %v", at, want.Intra, got.Intra)
	})
	a.check(kind+" NICs", slices.EqualFunc(want.Inter, got.Inter, slices.Equal), func() string {
		return fmt.Sprintf("%s: NCCL %v, here %v", at, want.Inter, got.Inter)
	})
}

func compareGraphs(a *tally, where string, want, got ChannelGraphs) {
	compareGraph(a, "ring", where, want.Ring, got.Ring)
	compareGraph(a, "tree", where, want.Tree, got.Tree)
	compareGraph(a, "nvls", where, want.NVLS, got.NVLS)
}

func TestSearchAgreesWithNCCL(t *testing.T) {
	var a tally
	for _, file := range goldenFiles(t, "graphs.json") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		golden := map[string]goldenGraphs{}
		if err := json.Unmarshal(data, &golden); err != nil {
			t.Fatal(err)
		}
		single, multi := readSnapshot(t, filepath.Join(filepath.Dir(file), "paths.json"))
		for variant, want := range golden {
			where := goldenSystem(file) + " " + variant
			snap := single
			if strings.HasPrefix(variant, "multi") {
				snap.Inter, snap.MaxBw, snap.TotalBw = 1, multi.MaxBw, multi.TotalBw
			}
			s := snap.system(t)
			collNet := strings.HasSuffix(variant, "collnet")
			for n := range s.nets {
				s.nets[n].coll = collNet
			}
			begin := time.Now()
			got := s.searchAll(searchRequest{nvls: want.NVLSSupport != 0, collNet: collNet})
			if d := time.Since(begin); d > 2*time.Second {
				t.Logf("%s took %v", where, d)
			}
			if collNet {
				compareGraph(&a, "collnet chain", where, want.CollNetChain, got.CollNetChain)
				compareGraph(&a, "collnet direct", where, want.CollNetDirect, got.CollNetDirect)
			} else {
				compareGraphs(&a, where, want.ChannelGraphs, got)
			}
		}
	}
	a.log(t)
	if n := a.failures(); n > 0 {
		t.Errorf("%d values differ from NCCL's", n)
	}
}
