//go:build cgo

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/storetest"
)

// withEtcd is built with the library of `make etcd`, once and only where there is an
// etcd to use it with.
var withEtcd = sync.OnceValues(func() (programs, error) {
	p := built
	p.so = filepath.Join(built.dir, "libnccl-tuner-go-etcd.so")
	out, err := exec.Command("make", "-s", "-C", "../..", "BUILD="+built.dir, p.so).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("make %s: %v\n%s", p.so, err, out)
	}
	return p, err
})

// waits is said of a call that waits at S.
const waits = "for the store to tell the decision"

// Scenario 42: etcd crashes in the middle of a change and comes back: when ranks have
// promised, and when some of them know the decision and others do not. Who comes to S
// then waits for it, nobody decides alone, and what was saved comes into force
// afterwards.
func TestLiveEtcdRestart(t *testing.T) {
	long(t)
	t.Parallel()
	etcd := storetest.StartEtcd(t, "http")
	programs, err := withEtcd()
	if err != nil {
		t.Fatal(err)
	}
	file, env := policyFile(t, 1)
	j := startJob(t, programs, 4, args("ranks=4 comms=2 rate=500 haste=2"),
		append(env, "NCCL_TUNER_RENDEZVOUS=etcd://"+etcd.Address+"/job"))
	j.tell("go")
	j.decided(0, 1)
	waitCalls(0, 500, j.ranks...) // until the rate is known
	moments := []struct {
		name string
		come func(by *rank, p proposal) bool
	}{
		{"after the checkpoint", func(by *rank, p proposal) bool { return by.count(0) > p.check }},
		{"after the decision", func(_ *rank, p proposal) bool {
			return etcdHas(t, etcd, fmt.Sprintf("/job/r/c/%s/d/%d.", agree.CommKey(j.comm(0), 4), p.k))
		}},
	}
	// On a busy machine the crash may come before any rank has to wait: then once more.
	const most = 12
	saved := []int{1}
	for n := 0; n < len(moments) || j.said(waits) == 0 && n < most; n++ {
		moment, version, last := moments[n%len(moments)], n+2, j.proposals(0)
		saved = append(saved, version)
		write(t, file, policyText(version))
		by, p := j.proposedAfter(0, last)
		eventually(t, "the moment "+moment.name, func() bool { return moment.come(by, p) })
		before := j.said(waits)
		etcd.Kill()
		eventually(t, "a rank waits for etcd, or the change is through, or no rank can be at S any more", func() bool {
			return j.said(waits) > before || j.decide(0, version) && j.decide(1, version) || j.passed(0, p.swap)
		})
		waiting := j.said(waits) - before
		etcd.Start()
		j.decided(0, version)
		j.decided(1, version)
		t.Logf("etcd crashed %s of change %d (c = %d, S = %d); of the ranks' calls, %d or more waited", moment.name,
			p.k, p.check, p.swap, waiting)
	}
	if j.said(waits) == 0 {
		t.Error("no call has waited for etcd: this shows nothing")
	}
	j.tell("stop")
	for context := range 2 {
		calls := j.compare(context)
		seen := j.checkVersions(calls, saved, outcome.byPolicy, allGather, reduceScatter)
		t.Logf("communicator %d: %d calls on each of 4 ranks, versions in force: %v", context, len(calls), seen)
	}
	j.end()
}

// passed reports that all ranks have left the calls behind at which a change at call swap
// could make them wait.
func (j *job) passed(context, swap int) bool {
	const barrier = 256 // calls, see docs/dev/PROTOCOL.md
	return !slices.ContainsFunc(j.ranks, func(r *rank) bool { return r.count(context) <= swap+barrier })
}

// etcdHas asks an etcd for keys that begin so, by its gateway for JSON.
func etcdHas(t *testing.T, etcd *storetest.Etcd, prefix string) bool {
	t.Helper()
	end := []byte(prefix)
	end[len(end)-1]++
	question, _ := json.Marshal(map[string]any{"key": []byte(prefix), "range_end": end, "count_only": true})
	reply, err := http.Post("http://"+etcd.Address+"/v3/kv/range", "application/json", bytes.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", reply.Status, text, err)
	}
	var answer struct{ Count string }
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Count != "" && answer.Count != "0"
}
