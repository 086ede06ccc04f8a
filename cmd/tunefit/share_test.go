package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// contributorsLog is a run as a site prints it.
const contributorsLog = `host: login-7.example.org user: wintermute job 8675309 skynet in /home/wintermute/secret-project
+ export NCCL_ALGO=Ring
+ export NCCL_TUNER_PLUGIN=/home/wintermute/lib/libnccl-tuner-other.so
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
# Using devices
#  Rank  0 Group  0 Pid    100 on node-alpha-17 device  0 [0000:10:00] Example GPU
#  Rank  1 Group  0 Pid    100 on node-beta-18 device  0 [0000:11:00] Example GPU
node-alpha-17:100:100 [0] NCCL INFO Bootstrap: Using ib0:10.11.12.13<0>
node-alpha-17:100:100 [0] NCCL INFO ncclCommInitRankConfig comm 0x55d0 commName tensor-parallel-skynet
NCCL version 2.28.9+cuda13.0
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
     1048576        262144     float     sum      -1    41.50   25.27   25.27       0    40.25   26.05   26.05       0
     2097152        524288     float     sum      -1    61.50   34.10   34.10       0    60.25   34.81   34.81       0
# Out of bounds values : 0 OK
`

// contributorsSweep is a sweep that a site has edited: names stand where none belong.
const contributorsSweep = `collective,size_bytes,dtype,redop,algorithm,protocol,channels,nodes,ranks,inplace,selection,time_us,source,gpu_model,hosts,nccl_version,driver_version,measured_at,tuner
allreduce,4096,float,sum,,,,1,8,0,default,30,verify:/scratch/wintermute/run#8675309,Example GPU,node-alpha-17 node-beta-18,2.28.9,550.54.15,2026-08-04T11:22:33,
allreduce,4096,float,sum,ring,ll,4,1,8,0,forced,20,/scratch/wintermute/b.log:7,Example GPU,node-alpha-17,2.28.9,550.54.15,2026-08-04T11:22:33,nccl-tuner-go 0.1.0
allreduce,8192,float of wintermute's,sum@skynet,ring,ll,4,1,8,0,forced,21,x:7,Example/GPU@node-alpha-17,,2.28.9-node-alpha-17,driver of node-alpha-17,yesterday on node-alpha-17,
allreduce,16384,float,sum,tree,ll,4,1,8,0,forced,22,x:8,AMD Example,,RCCL,ROCm 7.0.2,2026-08-04,
`

const contributorsTopology = `<!-- node-alpha-17, wintermute -->
<system version="1" cluster="skynet">
  <cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143" host_hash="0xa5f31daa95182da8">
    <pci busid="0000:01:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="90" rank="0" gdr="1" uuid="GPU-8932f937"/>
    </pci>
    <pci busid="0000:21:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16">
      <nic>
        <net name="enx08c0ebd1e2f3" dev="0" speed="400000" port="1" guid="0x8932f9370d6b1d1c" gdr="1" maxconn="node-alpha-17"/>
        <net name="mlx5_1" dev="1" speed="400000" port="2" guid="0x8932f9370d6b1d1c" gdr="1"/>
      </nic>
    </pci>
    <secret owner="wintermute"/>
  </cpu>
</system>
`

// contributorsNames may stand nowhere in a bundle.
var contributorsNames = regexp.MustCompile(`(?i)login-7|example\.org|wintermute|8675309|skynet|node-|alpha|beta|10\.11\.12|ib0|` +
	`11:22|tensor-parallel|/home|/scratch|/tmp|libnccl-tuner-other|yesterday|a5f31daa|8932f937|08c0ebd1|mlx5|secret|` +
	`verify-me`)

// unpacked returns the files of a bundle.
func unpacked(t *testing.T, bundle []byte) map[string]string {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(bundle))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for in := tar.NewReader(zipped); ; {
		head, err := in.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if head.Uname != "" || head.Uid != 0 || head.ModTime.Unix() != 0 {
			t.Errorf("%+v tells who packed it, or when", head)
		}
		files[head.Name] = string(text)
	}
}

// contribution is a folder of measurements, and what share makes of it.
func contribution(t *testing.T) (bundle []byte, stdout, stderr string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "node-alpha-17")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"wintermute-8675309.log": contributorsLog, "verify-me.csv": contributorsSweep,
		"system.xml": contributorsTopology} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "bundle.tar.gz")
	stdout, stderr = tunefit(t, cli.ExitOK, "share", dir, "-o", out, "--topo", filepath.Join(dir, "system.xml"))
	bundle, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return bundle, stdout, stderr
}

// No name of a host, user, job, path, address or communicator is in a bundle; the user is told each that was.
func TestShareNamesNobody(t *testing.T) {
	bundle, stdout, stderr := contribution(t)
	files := unpacked(t, bundle)
	for _, name := range []string{"bundle/measurements.csv", "bundle/topology.xml", "bundle/manifest.txt"} {
		if files[name] == "" {
			t.Errorf("no %s in the bundle", name)
		}
	}
	for name, text := range files {
		for _, found := range contributorsNames.FindAllString(name+"\n"+text, -1) {
			t.Errorf("%s has %q:\n%s", name, found, text)
		}
	}
	for _, name := range []string{"node-alpha-17 node-beta-18", "wintermute-8675309.log", "/scratch/wintermute/b.log",
		"libnccl-tuner-other.so", "enx08c0ebd1e2f3", "0xa5f31daa95182da8", "0x8932f9370d6b1d1c", "uuid=GPU-8932f937",
		"cluster=skynet", "maxconn=node-alpha-17", "float of wintermute's", "2026-08-04T11:22:33"} {
		if !strings.Contains(stderr, name) {
			t.Errorf("it does not tell that it removed %q:\n%s", name, stderr)
		}
	}
	if stdout != files["bundle/manifest.txt"] || contributorsNames.MatchString(stdout) {
		t.Errorf("it prints\n%s\nthe manifest is\n%s", stdout, files["bundle/manifest.txt"])
	}
}

// Times, configurations, models and releases stay, and the topology is still the same kind of machine.
func TestShareKeepsMeasurements(t *testing.T) {
	bundle, _, _ := contribution(t)
	files := unpacked(t, bundle)
	want := strings.TrimPrefix(`
all_reduce,4096,float,sum,,,,1,8,0,default,30,,,verify:log1,Example GPU,,2.28.9,550.54.15,2026-08-04,
all_reduce,4096,float,sum,ring,ll,4,1,8,0,forced,20,,,log2,Example GPU,,2.28.9,550.54.15,2026-08-04,nccl-tuner-go 0.1.0
all_reduce,8192,,,ring,ll,4,1,8,0,forced,21,,,log3,,,,,,
all_reduce,16384,float,sum,tree,ll,4,1,8,0,forced,22,,,log3,AMD Example,,RCCL,ROCm 7.0.2,2026-08-04,
all_reduce,1048576,float,sum,ring,,,2,2,0,forced,41.5,25.27,25.27,log4,Example GPU,,2.28.9,,,another
all_reduce,1048576,float,sum,ring,,,2,2,1,forced,40.25,26.05,26.05,log4,Example GPU,,2.28.9,,,another
all_reduce,2097152,float,sum,ring,,,2,2,0,forced,61.5,34.1,34.1,log4,Example GPU,,2.28.9,,,another
all_reduce,2097152,float,sum,ring,,,2,2,1,forced,60.25,34.81,34.81,log4,Example GPU,,2.28.9,,,another
`, "\n")
	if _, got, _ := strings.Cut(files["bundle/measurements.csv"], "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if p1, p2 := machineOf(t, contributorsTopology), machineOf(t, files["bundle/topology.xml"]); p1 != p2 {
		t.Errorf("another machine: %s, was %s\n%s", p2, p1, files["bundle/topology.xml"])
	}
	if n := strings.Count(files["bundle/topology.xml"], ` guid="0x1"`); n != 2 {
		t.Errorf("two ports of one NIC have different GUIDs:\n%s", files["bundle/topology.xml"])
	}
}

func machineOf(t *testing.T, text string) topo.Fingerprint {
	t.Helper()
	doc, err := topo.Read("system.xml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	sys, err := topo.Build(doc, topo.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return sys.Fingerprint()
}

// What fit makes of a bundle is what it makes of the measurements themselves; packing twice gives the same bytes.
func TestShareForFit(t *testing.T) {
	dir := t.TempDir()
	bundle, again := filepath.Join(dir, "a.tar.gz"), filepath.Join(dir, "b.tar.gz")
	tunefit(t, cli.ExitOK, "share", measuredGrid, "-o", bundle)
	tunefit(t, cli.ExitOK, "share", measuredGrid, "-o", again)
	first, _ := os.ReadFile(bundle)
	if second, err := os.ReadFile(again); err != nil || !bytes.Equal(first, second) || len(first) == 0 {
		t.Errorf("%d and %d bytes that differ (%v)", len(first), len(second), err)
	}
	sweep := testlib.File(t, "measurements.csv", unpacked(t, first)["bundle/measurements.csv"])
	want, _ := tunefit(t, cli.ExitOK, "fit", measuredGrid)
	if got, _ := tunefit(t, cli.ExitOK, "fit", sweep); got != want {
		t.Errorf("fit says of the bundle\n%s\nof the measurements\n%s", got, want)
	}
	// The folder of a sweep stands for its sweep.csv.
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{"sweep.csv": measuredGrid, "part.csv": smallSweep} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tunefit(t, cli.ExitOK, "share", folder, "-o", bundle, "--force")
	if third, err := os.ReadFile(bundle); err != nil || !bytes.Equal(first, third) {
		t.Errorf("the folder gives %d bytes, its sweep.csv %d (%v)", len(third), len(first), err)
	}
}

func TestShareRefuses(t *testing.T) {
	log := testlib.File(t, "run.txt", ringLog)
	empty := testlib.File(t, "empty.csv", "collective,size_bytes,time_us\nallreduce,0,1\n")
	out := filepath.Join(t.TempDir(), "b.tar.gz")
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{cli.ExitUsage, []string{log}, "no bundle named (needed: -o BUNDLE.tar.gz)"},
		{cli.ExitUsage, []string{"-o", out}, "a sweep"},
		{cli.ExitFailed, []string{"missing.csv", "-o", out}, "missing.csv"},
		{cli.ExitFailed, []string{empty, "-o", out}, "not one usable measurement: nothing was written"},
		{cli.ExitFailed, []string{log, "-o", log}, "would be overwritten"},
		{cli.ExitFailed, []string{log, "-o", out, "--topo", empty}, "topology"},
	} {
		code, _, stderr := runAlone(append([]string{"share"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, want %d, and %q in\n%s", c.args, code, c.code, c.want, stderr)
		}
		if _, err := os.Stat(out); err == nil {
			t.Fatalf("%q: it wrote a bundle", c.args)
		}
	}
}
