package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// noNUMA is a machine whose CPU has no NUMA number.
func noNUMA() string { return filepath.Join(testlib.Root, "topo/testdata/quirks.xml") }

func ready(name string) string { return filepath.Join(testlib.Root, "configs/topo", name) }

// holds reports which of the wanted lines are missing; runs of blanks count as one.
func holds(t *testing.T, text string, lines ...string) {
	t.Helper()
	var have []string
	for line := range strings.Lines(text) {
		have = append(have, strings.Join(strings.Fields(line), " "))
	}
	all := "\n" + strings.Join(have, "\n") + "\n"
	for _, want := range lines {
		if !strings.Contains(all, "\n"+want+"\n") {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
}

func TestTopo(t *testing.T) {
	out, said := tunefit(t, cli.ExitOK, "topo", ready("gb200-nvl72-tray.xml"))
	if said != "" {
		t.Errorf("said %q", said)
	}
	holds(t, out,
		"gpu0 gpu1 gpu2 gpu3 mlx5_0 mlx5_1 mlx5_4 mlx5_5 cpu",
		"gpu1 NVL 721.8 X NVL 721.8 NVL 721.8 P2C 48 P2C 48 PXN 48 PXN 48 cpu0",
		"P2C chip-to-chip link to the CPU, then PCIe",
		"gpu3 3 3 10.0 0019:01:00.0 mlx5_5",
		"mlx5_4 2 0010:03:00.0 1 50 0 available gpu2",
		"multimem possible, and NVLS too, if the driver agrees")
	out, _ = tunefit(t, cli.ExitOK, "topo", ready("pcie-4gpu.xml"))
	holds(t, out, "multimem no: needs two or more GPUs of Hopper or later, all on NVSwitch")
	out, _ = tunefit(t, cli.ExitOK, "topo", noNUMA())
	holds(t, out, "gpu0 X PHB 12 PIX 1.25 PIX 1.25 PHB 12 cpu")
}

func TestTopoJSON(t *testing.T) {
	out, _ := tunefit(t, cli.ExitOK, "topo", ready("dgx-a100.xml"), "--json")
	var got topoOverview
	var raw map[string]any
	if err := json.Unmarshal([]byte(out), &raw); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"source", "gpus", "columns", "matrix", "nics", "summary", "fingerprint"} {
		if raw[key] == nil {
			t.Errorf("no %q", key)
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.GPUs) != 8 || got.GPUs[0].CPU != "cpu3" || got.Matrix[0][8].Type != topo.PathPXB ||
		got.Matrix[0][8].BW != 24 || got.Summary.NICs != 8 {
		t.Errorf("%s", out)
	}
}

// All commands mean the same release: the one that --nccl names, else the installed one, else the newest known. What
// rules may use is as the library sees it, whatever the release.
func TestTopoRelease(t *testing.T) {
	before := testkit.Env.Installed
	t.Cleanup(func() { testkit.Env.Installed = before })
	tray := ready("gb200-nvl72-tray.xml")
	policy := testlib.File(t, "p.csv", sample)
	summaries := map[string]bool{}
	for _, c := range []struct {
		installed     nccl.Version
		named         []string
		release, path string // that holds, and from the first GPU to the last port
	}{
		{0, nil, nccl.Newest.String(), "PXN"},
		{22707, nil, "2.27.7", "SYS"},
		{nccl.Newest, []string{"--nccl", "2.27"}, "2.27.7", "SYS"},
	} {
		testkit.Env.Installed = func() nccl.Version { return c.installed }
		run := func(args ...string) string {
			out, _ := tunefit(t, cli.ExitOK, append(args, c.named...)...)
			return out
		}
		var overview topoOverview
		out := run("topo", tray, "--json")
		if err := json.Unmarshal([]byte(out), &overview); err != nil || overview.NCCL != c.release ||
			overview.Matrix[0][7].Type.String() != c.path {
			t.Errorf("%+v: %v in %s", c, err, out)
		}
		summaries[fmt.Sprint(overview.Summary, overview.Fingerprint)] = true
		for _, of := range []struct {
			want string
			args []string
		}{
			{"by the rules of NCCL " + c.release + ":", []string{"topo", tray}},
			{"gpu0 NET/0-3 " + c.path, []string{"topo", "links", tray}},
			{"gpu0 to mlx5_5: " + c.path, []string{"topo", "explain", "gpu0", "mlx5_5", "--topo", tray}},
			{"NCCL " + c.release, []string{"topo", "tuning", tray, "--nodes", "1"}},
			{`"nccl_release": "` + c.release, []string{"show", policy, "--comm", "1x4", "--sizes", "1M", "--json"}},
		} {
			if got := strings.Join(strings.Fields(run(of.args...)), " "); !strings.Contains(got, of.want) {
				t.Errorf("%v: no %q in %s", of.args, of.want, got)
			}
		}
	}
	if len(summaries) != 1 {
		t.Errorf("%v", summaries)
	}
	for _, args := range [][]string{{"topo"}, {"topo", "graphs"}, {"topo", "tuning"}, {"show"}, {"sweep"}} {
		out, _ := tunefit(t, cli.ExitOK, append(args, "--help")...)
		if text := strings.Join(strings.Fields(out), " "); !strings.Contains(text, "else "+nccl.Newest.String()+")") {
			t.Errorf("%v: %s", args, out)
		}
	}
}

// A GPU that lost its links is named, beside the table and beside JSON.
func TestTopoWarnsOfLostLinks(t *testing.T) {
	text, err := os.ReadFile(ready("gb200-nvl72-tray.xml"))
	if err != nil {
		t.Fatal(err)
	}
	first := regexp.MustCompile(`(?s)<nvlink [^>]*/>`).FindString(string(text))
	lost := testlib.File(t, "lost.xml", strings.Replace(string(text), first, "", 1))
	for _, args := range [][]string{{lost}, {lost, "--json"}} {
		_, said := tunefit(t, cli.ExitOK, append([]string{"topo"}, args...)...)
		if said != "warning: GPU 0 (0008:01:00.0) has 0 NVLinks, and others like it have 18\n" {
			t.Errorf("%v: %q", args, said)
		}
	}
}

// What --dump prints is a topology file with the same answers.
func TestTopoDump(t *testing.T) {
	for _, name := range []string{"dgx-h100.xml", "pcie-4gpu.xml"} {
		dump, _ := tunefit(t, cli.ExitOK, "topo", ready(name), "--dump")
		file := testlib.File(t, "dump.xml", dump)
		want, _ := tunefit(t, cli.ExitOK, "topo", "graphs", ready(name), "--json")
		if got, _ := tunefit(t, cli.ExitOK, "topo", "graphs", file, "--json"); got != want {
			t.Errorf("%s: other channels after --dump", name)
		}
	}
}

func TestTopoExplain(t *testing.T) {
	h100, a100, tray, pcie := ready("dgx-h100.xml"), ready("dgx-a100.xml"), ready("gb200-nvl72-tray.xml"),
		ready("pcie-4gpu.xml")
	p4d := ready("aws-p4d-like.xml")
	for _, c := range []struct {
		file, env, from, to string
		lines               []string
	}{
		{h100, "", "gpu0", "gpu5", []string{"gpu0 to gpu5: NVL, 4 hops, 370.8 GB/s",
			"NVL 370.8 GB/s DEV/0-1b000 to nvs narrowest",
			"peer-to-peer: on", "transport: P2P"}},
		{h100, "", "gpu0", "mlx5_4", []string{"gpu0 to mlx5_4: PXN, 8 hops, 48 GB/s",
			"PCI 48 GB/s DEV/0-52000 to PCI/0-4d000 narrowest", "PXN: on",
			"gpu2's PIX is not farther than P2C, the default level (NCCL_NET_GDR_LEVEL changes it)"}},
		{h100, "NCCL_PXN_DISABLE=1", "gpu0", "mlx5_4", []string{"gpu0 to mlx5_4: PHB, 6 hops, 48 GB/s",
			"GPUDirect RDMA, sending: off",
			"PHB is farther than P2C, the default level (NCCL_NET_GDR_LEVEL changes it)"}},
		{h100, "NCCL_NET_GDR_LEVEL=LOC", "GPU0", "mlx5_0", []string{"gpu0 to mlx5_0: PHB, 6 hops, 48 GB/s",
			"The direct path, which NCCL does not use: PIX, 4 hops, 48 GB/s", "GPUDirect RDMA, receiving: off",
			"PIX is farther than LOC, the level by NCCL_NET_GDR_LEVEL"}},
		{h100, "NCCL_NET_GDR_READ=0", "gpu0", "mlx5_0", []string{"GPUDirect RDMA, sending: off", "NCCL_NET_GDR_READ=0",
			"GPUDirect RDMA, receiving: on"}},
		{h100, "NCCL_P2P_DISABLE=1", "gpu0", "gpu1", []string{"peer-to-peer: off", "transport: SHM",
			"NVL is farther than LOC, the level by NCCL_P2P_LEVEL or NCCL_P2P_DISABLE",
			"The direct path, which NCCL does not use: NVL, 4 hops, 370.8 GB/s"}},
		{a100, "", "gpu0", "gpu1", []string{"reading: on"}},
		{p4d, "", "gpu1", "rdmap16s27", []string{"PCI 12 GB/s DEV/0-101d0 to PCI/0-10000 narrowest"}},
		{tray, "", "gpu0", "mlx5_0", []string{"gpu0 to mlx5_0: P2C, 4 hops, 48 GB/s", "GPUDirect RDMA, sending: on"}},
		{tray, "NCCL_NET_GDR_C2C=0", "gpu0", "mlx5_0",
			[]string{"P2C is farther than PXB, the default level with NCCL_NET_GDR_C2C=0"}},
		{pcie, "", "gpu0", "gpu3", []string{"gpu0 to gpu3: PHB, 4 hops, 24 GB/s", "peer-to-peer: off", "transport: SHM",
			"PHB is farther than PXB, the default level (SYS for one or two GPUs on AMD CPUs, else PXB; " +
				"NCCL_P2P_LEVEL changes it)"}},
		{pcie, "NCCL_P2P_LEVEL=SYS", "gpu0", "gpu3", []string{"peer-to-peer: on", "transport: P2P"}},
		{pcie, "NCCL_SHM_DISABLE=1", "gpu0", "gpu3",
			[]string{"transport: network", "peer-to-peer is off, and so is shared memory (NCCL_SHM_DISABLE)"}},
		{pcie, "", "enp129s0f0", "gpu0",
			[]string{"it is not available on the NIC (gdr=\"0\" in the topology: no peer-memory module, no DMA-BUF)"}},
		{pcie, "", "cpu0", "gpu0", []string{"cpu0 to gpu0: PHB, 2 hops, 24 GB/s"}},
		{noNUMA(), "", "cpu", "gpu0", []string{"cpu to gpu0: PHB, 3 hops, 12 GB/s"}},
	} {
		t.Run(filepath.Base(c.file)+" "+c.env+" "+c.from+" "+c.to, func(t *testing.T) {
			if name, value, ok := strings.Cut(c.env, "="); ok {
				t.Setenv(name, value)
			}
			out, _ := tunefit(t, cli.ExitOK, "topo", "explain", c.from, c.to, "--topo", c.file)
			holds(t, out, c.lines...)
		})
	}
}

func TestTopoReportsAsText(t *testing.T) {
	h100 := ready("dgx-h100.xml")
	out, _ := tunefit(t, cli.ExitOK, "topo", "links", h100)
	holds(t, out, "gpu0 gpu1 NVL 370.8 P2P", "gpu0 NET/0-0 PIX 48 GPUDirect RDMA")
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); f[0] == f[1] {
			t.Errorf("a way from a device to itself: %s", line)
		}
	}
	t.Run("without peer-to-peer", func(t *testing.T) {
		t.Setenv("NCCL_P2P_DISABLE", "1")
		out, _ := tunefit(t, cli.ExitOK, "topo", "links", h100)
		holds(t, out, "gpu0 gpu1 PHB 48 SHM", "gpu0 gpu4 NET 22 network", "gpu0 NET/0-0 PIX 48 GPUDirect RDMA")
	})
	out, _ = tunefit(t, cli.ExitOK, "topo", "graphs", h100)
	holds(t, out, "this system ring 12 30 - NVL - [0 1 2 3 4 5 6 7]")
	out, _ = tunefit(t, cli.ExitOK, "topo", "tuning", h100, "--nodes", "1")
	holds(t, out, "1x8 24 allreduce ring ll 15 80.57 8 - 1MiB", "1x8 16 allreduce nvls simple 25 272 2MiB - 16GiB")
	json, _ := tunefit(t, cli.ExitOK, "topo", "tuning", h100, "--nodes", "1,2", "--json")
	var set tuning.Set
	if err := set.UnmarshalJSON([]byte(json)); err != nil || len(set.Tunings) != 2 {
		t.Errorf("%v, %v", set, err)
	}
}

func TestShowWithTopology(t *testing.T) {
	file := testlib.File(t, "p.csv", sample)
	show := func(args ...string) (string, string) {
		return tunefit(t, cli.ExitOK, append([]string{"show", file, "--coll", "allreduce", "--comm", "1x8,2x8,3x8"},
			args...)...)
	}
	out, said := show("--topo", ready("aws-p4d-like.xml"))
	if said != "note: NCCL's default is taken from NCCL 2.30.7's estimates for "+ready("aws-p4d-like.xml")+"\n" {
		t.Errorf("costs of each size follow from the topology, but it said %q", said)
	}
	if h100, _ := show(); out == h100 {
		t.Error("the costs are not those of the topology")
	}
	// Four ranks per node are not all GPUs of this host: which ones counts.
	policy := testlib.File(t, "p.csv", "collective,min_bytes,max_bytes,algorithm,protocol,channels\n"+
		"allreduce,64K,1M,ring,simple,8\n")
	for gpus, want := range map[string][]string{
		"": {"allreduce 2x4 1KiB - 65535 not known not known NCCL",
			"allreduce 2x4 64KiB - 1MiB not known ring/simple 8 ch p.csv:2"},
		"4-7": {"allreduce 2x4 1KiB - 65535 tree/ll tree/ll NCCL",
			"allreduce 2x4 64KiB - 81853 tree/ll ring/simple 8 ch p.csv:2"},
	} {
		out, said := tunefit(t, cli.ExitOK, "show", policy, "--coll", "allreduce", "--comm", "2x4", "--topo",
			ready("dgx-a100.xml"), "--gpus", gpus)
		holds(t, out, want...)
		if strings.Contains(said, "is not known; what is available is taken from 2x8 (name its GPUs of a node, as "+
			"--gpus 0-3)") != (gpus == "") {
			t.Errorf("--gpus %q: said %q", gpus, said)
		}
	}
	for gpus, want := range map[string]string{
		"0-3,3":  "GPU 3 is named twice",
		"9":      "there is no GPU 9 (GPUs: 0, 1, 2, 3, 4, 5, 6, 7)",
		"3-0":    "no list of GPUs (needed: numbers and ranges, as 0-3 or 0,2,4-7)",
		"0-":     "no list of GPUs",
		"0-9999": "no list of GPUs",
	} {
		_, said := tunefit(t, cli.ExitUsage, "show", file, "--gpus", gpus)
		if !strings.HasPrefix(said, `tunefit: --gpus "`+gpus+`": `) || !strings.Contains(said, want) {
			t.Errorf("--gpus %q: %s", gpus, said)
		}
	}
}

func TestTopoSearchOrder(t *testing.T) {
	t.Setenv("NCCL_TUNER_TOPO_FILE", ready("pcie-4gpu.xml"))
	t.Setenv("NCCL_TOPO_FILE", ready("dgx-h100.xml"))
	out, said := tunefit(t, cli.ExitOK, "topo")
	holds(t, out, "gpu0 gpu1 gpu2 gpu3 enp129s0f0 cpu")
	if want := "note: topology NCCL_TUNER_TOPO_FILE=" + ready("pcie-4gpu.xml") + "\n"; said != want {
		t.Errorf("said %q, want %q", said, want)
	}
}

func TestTopoBadCommandLines(t *testing.T) {
	h100 := ready("dgx-h100.xml")
	bad := testlib.File(t, "bad.xml", "<system version=\"1\">\n <cpu>")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{h100, "--dump", "--json"}, cli.ExitUsage, "exclude each other"},
		{[]string{h100, h100}, cli.ExitUsage, "2 arguments given"},
		{[]string{h100 + ".absent"}, cli.ExitFailed, "no such file or directory"},
		{[]string{bad}, cli.ExitFailed, "bad.xml:2:7: <cpu> of line 2 is not closed"},
		{[]string{"tuning", h100, "--nodes", "0"}, cli.ExitUsage, "--nodes [0]"},
		{[]string{"explain", "gpu0", "--topo", h100}, cli.ExitUsage, "1 argument given"},
		{[]string{"explain", "gpu0", "mlx5_12", "--topo", h100}, cli.ExitFailed,
			`no "mlx5_12" in this system (did you mean "mlx5_10"; known: gpu0, `},
		{[]string{"explain", "gpu0", "gpu0", "--topo", h100}, cli.ExitFailed, "gpu0 and gpu0 are the same"},
	} {
		out, said := tunefit(t, c.code, append([]string{"topo"}, c.args...)...)
		if out != "" || !strings.Contains(said, c.says) {
			t.Errorf("%q printed %q and said %q, want %q", c.args, out, said, c.says)
		}
	}
}
