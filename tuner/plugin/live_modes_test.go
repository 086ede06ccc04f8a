//go:build cgo

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The file is replaced all the time while the ranks start: all of them start on one
// version and go on to the last.
func TestLiveStartDuringEdits(t *testing.T) {
	long(t)
	t.Parallel()
	file, env := policyFile(t, 1)
	const ranks = 8
	j := newJob(t)
	saved := []int{1}
	for i := range ranks {
		j.ranks = append(j.ranks, j.launch(built, i, args("ranks=%d comms=2 rate=500", ranks), env))
		saved = append(saved, i+2)
		write(t, file, policyText(i+2))
	}
	for _, r := range j.ranks {
		r.ready()
	}
	started := map[string]bool{}
	for _, r := range j.ranks {
		_, version, _ := strings.Cut(r.hears(fmt.Sprintf("communicator %#x: rank joined", uint64(j.seed)<<8)),
			"version ")
		version, _, _ = strings.Cut(version, " ") // the rest names the slot
		started[version] = true
	}
	if len(started) != 1 {
		t.Errorf("ranks start on versions %v", started)
	}
	j.tell("go")
	j.decided(0, saved[len(saved)-1])
	j.decided(1, saved[len(saved)-1])
	j.tell("stop")
	for context := range 2 {
		j.checkVersions(j.compare(context), saved, outcome.byPolicy, allGather, reduceScatter)
	}
	j.end()
}

// Ranks on machines whose views of the file differ: what the first brought is in
// force for all, until somebody changes it.
func TestLiveOwnFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		first func(path string) // what the first rank finds
		start int               // what all start on
	}{
		{"other version", func(path string) { os.WriteFile(path, policyText(3), 0o644) }, 3},
		{"missing", func(path string) { os.Remove(path) }, 0},
		{"bad", func(path string) { os.WriteFile(path, []byte("allgather,0,inf,rign,simple,1,-1,-1\n"), 0o644) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// Each rank has a file of its own, under the same name.
			j := newJob(t)
			file := make([]string, 3)
			for i := range file {
				var env []string
				if file[i], env = policyFile(t, 1); i == 0 {
					c.first(file[i])
				}
				j.ranks = append(j.ranks, j.launch(built, i, args("ranks=3 rate=500"), env))
				j.ranks[i].ready()
			}
			j.tell("go")
			j.decided(0, c.start)
			for _, f := range file {
				write(t, f, policyText(4))
			}
			j.decided(0, 4)
			write(t, file[0], policyText(5)) // on one machine only
			j.decided(0, 5)
			j.tell("stop")
			j.checkVersions(j.compare(0), []int{c.start, 4, 5}, outcome.byPolicy, allGather, reduceScatter)
			j.end()
		})
	}
}

// Kubernetes replaces a ConfigMap by turning the symbolic link ..data to another
// directory.
func TestLiveConfigMap(t *testing.T) {
	long(t)
	t.Parallel()
	dir := t.TempDir()
	publish := func(v int) {
		t.Helper()
		version := filepath.Join(dir, fmt.Sprint("..2026_", v))
		link := filepath.Join(dir, "..data_tmp")
		if err := os.Mkdir(version, 0o755); err != nil {
			t.Fatal(err)
		}
		writeInPlace(t, filepath.Join(version, "policy.csv"), policyText(v))
		if err := os.Symlink(filepath.Base(version), link); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		os.RemoveAll(filepath.Join(dir, fmt.Sprint("..2026_", v-1)))
	}
	publish(1)
	if err := os.Symlink("..data/policy.csv", filepath.Join(dir, "policy.csv")); err != nil {
		t.Fatal(err)
	}
	j := startJob(t, built, 2, args("ranks=2 rate=500"),
		[]string{"NCCL_TUNER_CONFIG_FILE=" + filepath.Join(dir, "policy.csv")})
	j.tell("go")
	for v := 2; v <= 3; v++ {
		publish(v)
		j.decided(0, v)
	}
	j.tell("stop")
	j.checkVersions(j.compare(0), []int{1, 2, 3}, outcome.byPolicy, allGather, reduceScatter)
	j.end()
}

// An edit is the first to ask for the machine's topology. A variable names its file, and the background knows it
// without the environment, which rank.c forbids to read by now.
func TestLiveTopology(t *testing.T) {
	t.Parallel()
	file, env := policyFile(t, 1)
	topology := filepath.Join(t.TempDir(), "topology.xml")
	text, err := os.ReadFile("../../configs/topo/dgx-h100.xml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, topology, text)
	j := startJob(t, built, 2, args("ranks=2 rate=500"), append(env, "NCCL_TUNER_TOPO_FILE="+topology))
	j.tell("go")
	j.decided(0, 1)
	conditional := strings.Replace(string(policyText(2)), "chunk_bytes\n", "chunk_bytes,when\n", 1)
	conditional = regexp.MustCompile(`(?m)^(all|reduce).*$`).ReplaceAllString(conditional, "$0,topo.nics == 8")
	write(t, file, []byte(conditional))
	j.decided(0, 2)
	j.tell("stop")
	j.checkVersions(j.compare(0), []int{1, 2}, outcome.byPolicy, allGather, reduceScatter)
	j.end()
}

// What stands against a change is said once, with what helps; the version that a
// communicator starts on then stays.
func TestLiveNot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		arg   []string
		env   []string
		said  string // on a line with why
		later int    // version of a communicator that is created after the change
	}{
		{"new", nil, []string{"NCCL_TUNER_RELOAD=new"}, "", 2},
		{"off", nil, []string{"NCCL_TUNER_RELOAD=off"}, "", 1},
		{"v4", args("abi=4"), nil,
			"INFO TUNER/Go: the policy cannot change during the run: this NCCL (tuner ABI v4) does not tell", 2},
		{"v4 live", args("abi=4"), []string{"NCCL_TUNER_RELOAD=live"},
			"WARN TUNER/Go: the policy cannot change during the run: this NCCL (tuner ABI v4) does not tell", 2},
		{"nodes", args("nodes=2"), nil,
			"WARN TUNER/Go: the policy cannot change during the run: the ranks are on several nodes: set " +
				"NCCL_TUNER_RENDEZVOUS to a directory", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file, env := policyFile(t, 1)
			j := startJob(t, built, 2, append(args("ranks=2 comms=2 rate=1000"), c.arg...), append(env, c.env...))
			j.tell("go")
			write(t, file, policyText(2))
			waitCalls(0, 2500, j.ranks...) // twice what a change needs
			j.tell("open 2")
			j.decided(2, c.later)
			j.decided(0, 1)
			j.tell("stop")
			j.checkVersions(j.compare(0), []int{1}, outcome.byPolicy, allGather, reduceScatter)
			for _, r := range j.ranks {
				if n := r.times("the policy cannot change during the run"); c.said == "" && n > 0 ||
					c.said != "" && (n != 1 || r.heard(c.said) == "") {
					t.Errorf("rank %d says %d times why it cannot change, want %q", r.id, n, c.said)
				}
			}
			j.end()
		})
	}
}

// NCCL asks nothing about a communicator of one rank: it leaves no record and says nothing, whatever is edited.
func TestLiveOneRank(t *testing.T) {
	t.Parallel()
	file, env := policyFile(t, 1)
	shared := t.TempDir()
	j := startJob(t, built, 1, args("ranks=1 rate=1000"), append(env, "NCCL_TUNER_RENDEZVOUS="+shared))
	j.tell("go")
	write(t, file, policyText(2))
	waitCalls(0, 2500, j.ranks...) // twice what a change needs
	j.decided(0, 1)
	if entries, err := os.ReadDir(shared); len(entries) > 0 || err != nil {
		t.Errorf("%v, %v", entries, err)
	}
	if n := j.ranks[0].times("[rank index 0]"); n > 0 {
		t.Errorf("it takes part in %d ways", n)
	}
	j.tell("stop")
	j.end()
}

// Two nodes, as far as the ranks know, with a directory that they share.
func TestLiveAcrossNodes(t *testing.T) {
	long(t)
	t.Parallel()
	file, env := policyFile(t, 1)
	shared := t.TempDir()
	j := startJob(t, built, 4, args("ranks=4 nodes=2 rate=300"), append(env, "NCCL_TUNER_RENDEZVOUS="+shared,
		"NCCL_TUNER_RELOAD=live"))
	j.tell("go")
	waitCalls(0, 400, j.ranks...)
	write(t, file, policyText(2))
	j.decided(0, 2)
	j.tell("stop")
	j.checkVersions(j.compare(0), []int{1, 2}, outcome.byPolicy, allGather, reduceScatter)
	j.end()
}

// A rendezvous that cannot be used fails init: other ranks may have met there.
func TestLiveNoRendezvous(t *testing.T) {
	long(t)
	t.Parallel()
	absent := filepath.Join(t.TempDir(), "absent", "store")
	_, env := policyFile(t, 1)
	r := newJob(t).launch(built, 0, args("ranks=2"), append(env, "NCCL_TUNER_RENDEZVOUS="+absent))
	if got := r.answer(); !strings.HasPrefix(got, "opened 0: 5 ") {
		t.Errorf("init: %q", got)
	}
	r.hears("WARN", "init fails", "cannot meet the others", "NCCL_TUNER_RENDEZVOUS="+absent, "NCCL_TUNER_RELOAD=new")
}

// A bad file during the run: all its errors, once per process, and what is kept. A
// file without errors again is taken up.
func TestLiveBadFile(t *testing.T) {
	t.Parallel()
	file, env := policyFile(t, 1)
	j := startJob(t, built, 2, args("ranks=2 comms=2 rate=500"), append(env, "NCCL_TUNER_STRICT=1"))
	j.tell("go")
	j.decided(0, 1)
	write(t, file, []byte("allgather,0,inf,rign,simple,4,-1,-1\nallgather,0,inf,ring,simple,400,-1,-1\n"))
	for _, r := range j.ranks {
		r.hears("WARN", file+" has 2 problems")
		r.hears("WARN", file+":1:")
		r.hears("WARN", file+":2:")
		r.hears("WARN", "keeping version", "of "+file)
	}
	write(t, file, bytes.Replace(policyText(2), []byte("#"), []byte("# mended"), 1))
	j.decided(0, 2)
	j.decided(1, 2)
	for _, r := range j.ranks {
		if n := r.times("keeping version"); n != 1 {
			t.Errorf("rank %d says %d times which version it keeps", r.id, n)
		}
	}
	j.tell("stop")
	j.checkVersions(j.compare(0), []int{1, 2}, outcome.byPolicy, allGather, reduceScatter)
	j.end()
}
