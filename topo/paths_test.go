package topo

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// env makes settings of "NAME=value NAME=value".
func env(text string) Settings {
	vars := map[string]string{}
	for _, v := range strings.Fields(text) {
		name, value, _ := strings.Cut(v, "=")
		vars[name] = value
	}
	return SettingsFromEnv(func(name string) string { return vars[name] })
}

func TestPaths(t *testing.T) {
	raw, diverted := false, true
	tests := []struct {
		file, env string
		diverted  bool
		from, to  string
		want      Path
		via       string // names of the nodes passed
	}{
		// NVSwitch: 18 links of 20.6 GB/s; device, switches, device, GPU.
		{"nvswitch4.xml", "", raw, "GPU/0-11000", "GPU/0-21000", Path{Type: PathNVL, Hops: 4, BW: 370.80002},
			"DEV/0-11000 NVS/0-0 DEV/0-21000 GPU/0-21000"},
		// 32 GT/s on 16 lanes are 48 GB/s, less than the port's 50.
		{"nvswitch4.xml", "", raw, "GPU/0-11000", "NET/0-0", Path{Type: PathPIX, Hops: 4, BW: 48},
			"DEV/0-11000 PCI/0-10000 NIC/0-13000 NET/0-0"},
		{"nvswitch4.xml", "", raw, "GPU/0-11000", "NET/0-1", Path{Type: PathSYS, Hops: 7, BW: 22},
			"DEV/0-11000 PCI/0-10000 CPU/0-0 CPU/0-1 PCI/0-20000 NIC/0-23000 NET/0-1"},
		// The far NIC is reached through the first GPU of its own switch.
		{"nvswitch4.xml", "", diverted, "GPU/0-11000", "NET/0-1", Path{Type: PathPXN, Hops: 8, BW: 48},
			"DEV/0-11000 NVS/0-0 DEV/0-21000 GPU/0-21000 DEV/0-21000 PCI/0-20000 NIC/0-23000 NET/0-1"},
		{"nvswitch4.xml", "", diverted, "NET/0-1", "GPU/0-11000", Path{Type: PathSYS, Hops: 7, BW: 22}, ""},
		{"nvswitch4.xml", "NCCL_PXN_DISABLE=1", diverted, "GPU/0-11000", "NET/0-1",
			Path{Type: PathSYS, Hops: 7, BW: 22}, ""},
		// Without GPUDirect RDMA the near NIC is reached through the CPU.
		{"nvswitch4.xml", "NCCL_NET_GDR_LEVEL=LOC", diverted, "GPU/0-11000", "NET/0-0",
			Path{Type: PathPHB, Hops: 6, BW: 48},
			"DEV/0-11000 PCI/0-10000 CPU/0-0 PCI/0-10000 NIC/0-13000 NET/0-0"},
		// NVLink may be switched off by level: then through the target's CPU.
		{"nvswitch4.xml", "NCCL_P2P_DISABLE=1", diverted, "GPU/0-11000", "GPU/0-12000",
			Path{Type: PathPHB, Hops: 6, BW: 48},
			"DEV/0-11000 PCI/0-10000 CPU/0-0 PCI/0-10000 DEV/0-12000 GPU/0-12000"},

		{"pcie2.xml", "", raw, "GPU/0-10000", "GPU/0-20000", Path{Type: PathSYS, Hops: 5, BW: 10}, ""},
		{"pcie2.xml", "", raw, "GPU/0-10000", "NET/0-0", Path{Type: PathPHB, Hops: 4, BW: 12}, ""},

		{"chain3.xml", "", raw, "GPU/0-1000", "GPU/0-2000", Path{Type: PathNVL, Hops: 3, BW: 40}, ""},
		{"chain3.xml", "", raw, "GPU/0-1000", "GPU/0-3000", Path{Type: PathNVB, Hops: 4, BW: 20},
			"DEV/0-1000 DEV/0-2000 DEV/0-3000 GPU/0-3000"},
		{"chain3.xml", "NCCL_NVB_DISABLE=1", raw, "GPU/0-1000", "GPU/0-3000", Path{Type: PathPHB, Hops: 4, BW: 12}, ""},

		// C2C is 10 links of 44.712 GB/s. Its path to a NIC of the CPU is a type of its own, once it is known to be
		// local.
		{"grace.xml", "", raw, "GPU/0-1000", "CPU/0-0", Path{Type: PathC2C, Hops: 2, BW: 447.12}, ""},
		{"grace.xml", "", raw, "GPU/0-1000", "NET/0-0", Path{Type: PathPHB, Hops: 4, BW: 48}, ""},
		{"grace.xml", "", diverted, "GPU/0-1000", "NET/0-0", Path{Type: PathP2C, Hops: 4, BW: 48}, ""},

		// The two-level BCM switch counts as one, the cascade of others does not.
		{"quirks.xml", "", raw, "GPU/0-12000", "NET/0-0", Path{Type: PathPIX, Hops: 4, BW: 1.25}, ""},
		{"quirks.xml", "", raw, "GPU/0-22000", "NET/0-2", Path{Type: PathPXB, Hops: 5, BW: 24}, ""},
		{"quirks.xml", "", raw, "GPU/0-12000", "GPU/0-22000", Path{Type: PathPHB, Hops: 7, BW: 12}, ""},

		// NVLink reaches across hosts, other links do not.
		{"two_hosts.xml", "", raw, "GPU/0-1000", "GPU/1-1000", Path{Type: PathNVL, Hops: 4, BW: 721.8}, ""},
		{"two_hosts.xml", "", raw, "CPU/0-0", "CPU/1-0", Path{Type: PathDIS}, ""},
		{"two_hosts.xml", "", diverted, "GPU/0-1000", "NET/1-0", Path{Type: PathDIS}, ""},
	}
	for _, tt := range tests {
		s, err := Build(fixture(t, tt.file), env(tt.env))
		if err != nil {
			t.Fatal(err)
		}
		err = s.SetPaths()
		if tt.diverted {
			err = s.ComputePaths()
		}
		if err != nil {
			t.Errorf("%s %s: %v", tt.file, tt.env, err)
			continue
		}
		p := s.Path(s.node(t, tt.from), s.node(t, tt.to))
		var via []string
		for _, l := range p.Links {
			via = append(via, l.To.Name())
		}
		if p.Type != tt.want.Type || p.Hops != tt.want.Hops || p.BW != tt.want.BW {
			t.Errorf("%s %s: %s to %s: %s, %d hops, %g GB/s; want %s, %d, %g", tt.file, tt.env, tt.from, tt.to,
				p.Type, p.Hops, p.BW, tt.want.Type, tt.want.Hops, tt.want.BW)
		}
		if tt.via != "" && !slices.Equal(via, strings.Fields(tt.via)) {
			t.Errorf("%s %s: %s to %s: passes %v, want %s", tt.file, tt.env, tt.from, tt.to, via, tt.via)
		}
	}
}

func TestPathsNeedTheWayBack(t *testing.T) {
	doc := fixture(t, "chain3.xml")
	gpu := doc.Root.Find("pci", "busid", "0000:03:00.0").Child("gpu")
	gpu.Children = nil
	err := build(t, doc).SetPaths()
	if err == nil || !strings.Contains(err.Error(), "none back") {
		t.Errorf("error %v, want one about the missing link", err)
	}
}

func TestTrimLeavesWhatNeedsNoNetwork(t *testing.T) {
	s := build(t, fixture(t, "pcie2.xml"))
	s.SHMDisable = true
	if err := s.Init(s.Whole()); err != nil {
		t.Fatal(err)
	}
	if ranks := s.Ranks(); !slices.Equal(ranks, []int{0}) || !s.Inter {
		t.Errorf("ranks %v, inter %t: want rank 0 alone, and the network between", ranks, s.Inter)
	}
	// One GPU and a 12.5 GB/s port behind 12 GB/s of PCI.
	if got := *s.Totals(); got != (Totals{Inter: 1, MaxBW: 12, TotalBW: 12, GPUs: 1}) {
		t.Errorf("totals %+v", got)
	}
}

func TestReportIsWhatNCCLsTablesLookLike(t *testing.T) {
	doc := fixture(t, "nvswitch4.xml")
	for stage, want := range map[Stage]string{
		StageRaw:    `["SYS",7,22,[13,4,7,8,5,10,12]]`,
		StageSingle: `["PXN",8,48,[13,6,15,2,15,5,10,12]]`,
	} {
		r, err := Paths(doc, Settings{}, stage)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(r.Paths["GPU/0-11000"]["NET"][1])
		if err != nil || string(got) != want {
			t.Errorf("%s: path %s (%v), want %s", stage, got, err, want)
		}
		if (r.Totals != nil) != (stage == StageSingle) {
			t.Errorf("%s: totals %+v", stage, r.Totals)
		}
	}
	r, err := Paths(doc, Settings{}, StageSingle)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(r.Nodes[12])
	const want = `{"i":12,"name":"NET/0-1","type":"NET","idx":1,"dev":1,"asic":"0xa1","port":1,"bw":50,"latency":0,` +
		`"gdr":1,"coll":0,"maxconn":131072,"localGpu":2,"links":[["NET",50,10]]}`
	if err != nil || string(got) != want {
		t.Errorf("node %s (%v), want %s", got, err, want)
	}
	if got, _ := json.Marshal(r.Nodes[13].Links[1]); string(got) != `["NVL",370.800018,6]` {
		t.Errorf("link %s: a float32 must show nine digits", got)
	}
}

// FuzzPaths: no file makes the way from text to decisions panic.
func FuzzPaths(f *testing.F) {
	files, err := filepath.Glob("testdata/*.xml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src, "")
		f.Add(src, "NCCL_P2P_LEVEL=LOC NCCL_NET_GDR_LEVEL=LOC")
	}
	f.Fuzz(func(t *testing.T, src []byte, settings string) {
		doc, err := Read("f.xml", bytes.NewReader(src))
		if err != nil {
			return
		}
		set := env(settings)
		for _, stage := range []Stage{StageRaw, StageSingle} {
			r, err := Paths(doc, set, stage)
			if err != nil {
				return
			}
			if _, err := json.Marshal(r); err != nil {
				t.Fatal(err)
			}
		}
		links(doc, set)
	})
}

func BenchmarkWorstPaths(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		doc, err := Read("f.xml", bytes.NewReader(text))
		if err == nil {
			_, err = Paths(doc, Settings{}, StageSingle)
		}
		return err
	}, hostileXML...)
}
