package profile

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// said is a line of NCCL's log by a rank, which has a process of its own.
func said(rank int, format string, args ...any) string {
	return fmt.Sprintf("[1,%d]<stdout>:n%d:%d:7 [0] NCCL INFO ", rank, rank/2, 100+rank) + fmt.Sprintf(format, args...) + "\n"
}

// initOf is what ranks log when they join a communicator.
func initOf(comm, id string, nodes int, ranks ...int) (text string) {
	for i, r := range ranks {
		text += said(r, "ncclCommInitRank comm %s rank %d nranks %d cudaDev 0 busId 1b000 commId %s - Init START", comm, i,
			len(ranks), id) +
			said(r, "comm %s rank %d nRanks %d nNodes %d localRanks 2 localRank 0 MNNVL 0", comm, i, len(ranks), nodes)
	}
	return text
}

func coll(rank int, name string, count int, comm string, ranks int) string {
	return said(rank, "%s: opCount a sendbuff 0x7f recvbuff 0x7f count %d datatype 9 op 0 root 0 comm %s [nranks=%d] "+
		"stream 0x55", name, count, comm, ranks)
}

func profiled(t *testing.T, files ...string) *Profile {
	t.Helper()
	j := NewJob()
	for i, text := range files {
		if err := j.Log(fmt.Sprintf("rank%d.log", i), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := j.Profile(0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// entries are those of a profile in short.
func entries(p *Profile) (text string) {
	for _, e := range p.Entries {
		text += fmt.Sprintf("%s %d %dx%d %s %d ch x%.4g %s\n", e.Coll, e.Bytes, e.Nodes, e.Ranks, e.Cell, e.Channels, e.Calls,
			e.DecidedBy)
	}
	return text
}

// NCCL's own log tells what ran: of a job of four ranks on two nodes, with a communicator of all and one of each node.
func TestNCCLsLog(t *testing.T) {
	all, node0, node1 := initOf("0xa0", "0x1", 2, 0, 1, 2, 3), initOf("0xb0", "0x2", 1, 0, 1), initOf("0xb0", "0x3", 1, 2, 3)
	const reduced = "AllReduce: 2048 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}"
	const gathered = "AllGather: 2048 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}"
	calls := func(ranks ...int) (text string) {
		for _, r := range ranks {
			text += coll(r, "AllReduce", 1024, "0xa0", 4) + coll(r, "AllReduce", 1024, "0xa0", 4) +
				coll(r, "AllGather", 1024, "0xb0", 2) + coll(r, "Send", 1024, "0xb0", 2)
		}
		return text
	}
	ran := said(0, reduced) + said(0, reduced) + said(0, gathered) + said(2, gathered)
	want := "allgather 4096 1x2 nvls/simple 16 ch x1 \nallreduce 2048 2x4 ring/ll 2 ch x2 \n"
	for name, files := range map[string][]string{
		"in one file": {all + node0 + node1 + calls(0, 1, 2, 3) + ran},
		"a file of each process": {
			all + node0 + calls(0) + said(0, reduced) + said(0, reduced) + said(0, gathered), all + node0 + calls(1),
			node1 + all + calls(2) + said(2, gathered), all + node1 + calls(3),
		},
	} {
		if got := entries(profiled(t, files...)); got != want {
			t.Errorf("%s:\n%swant\n%s", name, got, want)
		}
	}
	one := initOf("0xa0", "0x1", 2, 0, 1, 2, 3)
	for _, c := range []struct{ name, log, want string }{
		{"without COLL, one communicator", one + said(0, reduced) + said(0, reduced), "allreduce 2048 2x4 ring/ll 2 ch x2 \n"},
		{"without INIT and COLL", said(0, reduced), "allreduce 2048 0x0 ring/ll 2 ch x1 \n"},
		{"without INIT", coll(0, "AllGather", 1024, "0xb0", 2) + said(0, gathered), "allgather 4096 0x2 nvls/simple 16 ch x1 \n"},
		{"without TUNING", one + coll(0, "AllReduce", 1024, "0xa0", 4), "allreduce 2048 2x4 - 0 ch x0.25 \n"},
		{"symmetric", one + said(0, "AllReduce [Symmetric]: 2048 Bytes -> Kernel AllReduce_RSxLDMC nchannels 4 nthreads 512 nWorks 1"),
			"allreduce 2048 2x4 - 0 ch x1 no tuner\n"},
		{"copy engine", one + said(0, "AllGather [Copy Engine]: 512 Bytes -> cudaMemcpy"), "allgather 2048 2x4 - 0 ch x1 no tuner\n"},
		{"two choices", one + said(0, reduced) + said(0, reduced) + said(0, "%s", strings.Replace(reduced, "RING", "TREE", 1)),
			"allreduce 2048 2x4 ring/ll 2 ch x2 \nallreduce 2048 2x4 tree/ll 2 ch x1 \n"},
		{"an address used again", one + initOf("0xa0", "0x9", 1, 0, 1) + coll(0, "AllReduce", 1024, "0xa0", 2) + said(0, reduced),
			"allreduce 2048 1x2 ring/ll 2 ch x0.25 \n"},
	} {
		if got := entries(profiled(t, c.log)); got != c.want {
			t.Errorf("%s:\n%swant\n%s", c.name, got, c.want)
		}
	}
}

// Beside the inspector's records NCCL's log adds no ranks and no calls.
func TestLogBesideTheInspector(t *testing.T) {
	want := entries(job(t, 2, "inspector-*.json"))
	j := NewJob()
	files, _ := filepath.Glob("testdata/inspector-*.json")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			err = j.Inspector(file, bytes.NewReader(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	log := initOf("0xa0", "0x1", 2, 0, 1, 2, 3) + coll(0, "AllReduce", 1024, "0xa0", 4)
	if err := j.Log("job.log", strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	if p, err := j.Profile(2); err != nil || entries(p) != want {
		t.Errorf("%v:\n%swant\n%s", err, entries(p), want)
	}
}

// What a log says of the settings is kept.
func TestOverrides(t *testing.T) {
	one := initOf("0xa0", "0x1", 1, 0, 1)
	p := profiled(t, said(0, "NCCL version 2.28.9+cuda12.9")+said(0, "NCCL_ALGO set by environment to Ring.")+
		said(1, "NCCL_ALGO set by environment to Ring.")+one+
		said(0, "ncclDdaIpcCommInit: scratch 67108864 bytes, IpcGpuBarrier nBlocks=24"))
	if strings.Join(p.Variables, " ") != "NCCL_ALGO=Ring" || !p.NotLoaded() || !p.Direct ||
		p.NCCL != "2.28.9" {
		t.Errorf("%+v", p.Overrides)
	}
	ours := said(0, "TUNER/Go: start library=0.3.0 comm=0x1 ranks=2 nodes=1 nccl=2.30.7 abi=6") +
		said(0, "TUNER/Go: available comm=0x1 coll=allreduce cells=\"ring/ll tree/ll\"")
	nvls, ring := nccl.Cell{Algo: nccl.AlgoNVLS, Proto: nccl.ProtoSimple}, nccl.Cell{Algo: nccl.AlgoRing}
	if p := profiled(t, one+ours); p.NotLoaded() || p.NCCL != "2.30.7" || !p.Lacks(nccl.CollAllReduce, nvls) ||
		p.Lacks(nccl.CollAllReduce, ring) || p.Lacks(nccl.CollAllGather, nvls) {
		t.Errorf("%+v", p.Overrides)
	}
}

func FuzzLog(f *testing.F) {
	f.Add(initOf("0xa0", "0x1", 2, 0, 1) + coll(0, "AllGather", 1024, "0xa0", 2) +
		said(0, "AllGather: 2048 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}"))
	f.Fuzz(func(t *testing.T, text string) {
		j := NewJob()
		if j.Log("x", strings.NewReader(text)) != nil {
			return
		}
		p, err := j.Profile(1)
		if err != nil {
			return
		}
		for _, e := range p.Entries {
			if !(e.Calls >= 0) || math.IsInf(e.Calls, 0) || e.Ranks == 1 || e.Nodes > e.Ranks {
				t.Errorf("%+v", e)
			}
		}
	})
}

func BenchmarkWorstLog(b *testing.B) {
	ran := said(0, "AllReduce: 2048 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}")
	benchmarkJob(b, func(j *Job, in io.Reader) error { return j.Log("x", in) },
		hostile.Text{Unit: strings.Replace(said(0, "comm 0xa rank 0 nRanks 4 nNodes 2"), "0xa", "0x%d", 1) + ran},
		hostile.Text{Unit: strings.Replace(coll(0, "AllReduce", 1024, "0xa0", 2), "0xa0", "0x%d", 1), Tail: ran},
		hostile.Text{Unit: strings.Replace(coll(0, "AllReduce", 777, "0xa0", 2), "777", "%d", 1) + ran},
		hostile.Text{Unit: "n:%d:1 [0] NCCL INFO comm 0xa rank 0 nRanks 4 nNodes 2\n"},
		hostile.Text{Head: "n:1:1 [0] NCCL INFO comm 0xa", Unit: " a", Tail: "\n"},
	)
}
