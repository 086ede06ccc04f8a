package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
)

// essentials are what people know of a machine.
type essentials struct {
	gpus, nics int
	gpuGPU     topo.PathType
	gpuBW      topo.Float32 // GB/s
	gpuNIC     topo.PathType
	nicBW      topo.Float32
	rings      int     // channels on one host
	ringBW     float32 // GB/s of each
	nvls       bool
	gdr        bool
}

func TestTopologies(t *testing.T) {
	want := map[string]essentials{
		"dgx-h100.xml":         {8, 8, topo.PathNVL, 370.8, topo.PathPIX, 48, 12, 30, true, true},
		"dgx-a100.xml":         {8, 8, topo.PathNVL, 240, topo.PathPXB, 24, 12, 20, false, true},
		"aws-p4d-like.xml":     {8, 4, topo.PathNVL, 240, topo.PathPIX, 12, 12, 20, false, true},
		"gb200-nvl72-tray.xml": {4, 4, topo.PathNVL, 721.8, topo.PathP2C, 48, 16, 45, true, true},
		"pcie-4gpu.xml":        {4, 1, topo.PathPHB, 24, topo.PathPHB, 1.25, 2, 12, false, false},
	}
	files, err := filepath.Glob("topo/*.xml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		w, ok := want[filepath.Base(file)]
		if !ok {
			t.Errorf("%s: nothing is known that it should be", file)
		}
		delete(want, filepath.Base(file))
		checkTopology(t, file, w)
	}
	for name := range want {
		t.Errorf("%s is not there", name)
	}
}

func checkTopology(t *testing.T, file string, want essentials) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "<!--\n") || !strings.Contains(string(text), "\nSources\n") {
		t.Errorf("%s does not begin with a comment that names its sources", file)
	}
	doc, err := topo.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sys, err := topo.Build(doc, topo.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if err := sys.Init(sys.Whole()); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	gpus := sys.Nodes[topo.NodeGPU]
	if len(gpus) != want.gpus || len(sys.Nodes[topo.NodeNET]) != want.nics {
		t.Errorf("%s: %d GPUs and %d NICs, want %d and %d", file, len(gpus), len(sys.Nodes[topo.NodeNET]),
			want.gpus, want.nics)
	}
	served := map[*topo.Node]bool{}
	for _, a := range gpus {
		for _, b := range gpus {
			if p := sys.Path(a, b); a != b && (p.Type != want.gpuGPU || !near(p.BW, want.gpuBW)) {
				t.Errorf("%s: %s to %s: %s at %g GB/s, want %s at %g", file, a.Label(), b.Label(), p.Type, p.BW,
					want.gpuGPU, want.gpuBW)
			}
		}
		nic := sys.LocalNet(a, 0)
		served[nic] = true
		if p := sys.Path(a, nic); p.Type != want.gpuNIC || !near(p.BW, want.nicBW) {
			t.Errorf("%s: %s to its own %s: %s at %g GB/s, want %s at %g", file, a.Label(), nic.Label(), p.Type, p.BW,
				want.gpuNIC, want.nicBW)
		}
		if gdr := sys.CheckGDR(a, nic, true); (gdr.Mode != topo.GDROff) != want.gdr {
			t.Errorf("%s: %s: GPUDirect RDMA %v, want %t", file, a.Label(), gdr.Mode, want.gdr)
		}
	}
	if len(served) != want.nics {
		t.Errorf("%s: the GPUs use %d of %d NICs", file, len(served), want.nics)
	}
	comms, err := channels.Tune(doc, channels.TuneOptions{}, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	ring := comms[0].Graphs.Ring
	if ring.NChannels != want.rings || ring.BWIntra != want.ringBW {
		t.Errorf("%s: %d rings of %g GB/s, want %d of %g", file, ring.NChannels, ring.BWIntra, want.rings, want.ringBW)
	}
	for _, c := range comms {
		if c.Tuning.NVLS != want.nvls {
			t.Errorf("%s over %d hosts: NVLS %t, want %t", file, c.Hosts, c.Tuning.NVLS, want.nvls)
		}
		if c.Tuning.Ranks != want.gpus*c.Hosts || c.Graphs.Ring.NChannels == 0 {
			t.Errorf("%s over %d hosts: %d ranks, %d rings", file, c.Hosts, c.Tuning.Ranks, c.Graphs.Ring.NChannels)
		}
	}
}

func near(a, b topo.Float32) bool { return a > b*0.999 && a < b*1.001 }
