package jobs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
)

// bundleOf is the content of a version as ranks record it, and its key and digest.
func bundleOf(policy, text string) (key, digest, content string) {
	head, _ := json.Marshal(map[string]any{"Policy": policy, "PolicyLen": len(text)})
	content = "nccl-tuner-go bundle 1\n" + string(head) + "\n" + text
	digest = agree.DigestOf([]byte(content))
	return "blob/" + digest, digest, content
}

func policyRow(channels int) string {
	return fmt.Sprintf("allreduce,0,inf,ring,simple,%d,-1,-1\n", channels)
}

// pushed is a rendezvous of communicators that read one file, of which the ranks are on
// other machines.
type pushed struct{ dir, file, before, after string }

func newPushed(t *testing.T, comms ...string) pushed {
	p := pushed{file: testlib.File(t, "p.csv", policyRow(1))}
	all := map[string]string{}
	for channels, digest := range map[int]*string{1: &p.before, 2: &p.after} {
		key, d, content := bundleOf(p.file, policyRow(channels))
		all[key], *digest = content, d
	}
	for _, comm := range comms {
		all["c/"+comm+"/init"] = fmt.Sprintf(`{"content":%q,"meaning":"aaaaaaaaaaaaaaaa"}`, p.before)
		var ranks int
		fmt.Sscanf(comm[strings.Index(comm, "-"):], "-%d", &ranks)
		for slot := range ranks {
			all[fmt.Sprintf("c/%s/slot/%d", comm, slot)] = fmt.Sprintf("x n%d 11 1 1", slot)
		}
	}
	p.dir = testlib.Records(t, all)
	return p
}

// NCCL asks nothing about a communicator of one rank, and nobody makes a collective on
// one that a rank has ended: push waits for neither.
func TestPushWaitsForNoneThatCannotSwitch(t *testing.T) {
	const one, ending = "0000000000000001-1", "0000000000000002-2"
	p := newPushed(t, one, ending)
	testlib.AddRecords(t, p.dir, map[string]string{"c/" + ending + "/left/0": ""})
	var said strings.Builder
	f := Push{To: p.file, Rendezvous: p.dir, Timeout: time.Second}
	if err := f.Run(&said, testlib.File(t, "new.csv", policyRow(2))); err != nil {
		t.Fatal(err)
	}
	out := said.String()
	if !strings.Contains(out, "1 communicator of one rank is not waited for: NCCL asks no tuner about it\n") || !strings.Contains(out, "no job that can change its policy") {
		t.Error(out)
	}
	out = listed(t, p.dir)
	if !strings.Contains(plain(out), "none: NCCL asks nothing about one rank\n") {
		t.Errorf("%s", out)
	}
}

// Communicators that end meanwhile are not counted among those that run on the file.
func TestPushCountsNoneThatEnded(t *testing.T) {
	const stays, ends = "0000000000000001-2", "0000000000000002-2"
	for _, switches := range []bool{true, false} {
		p := newPushed(t, stays, ends)
		var out strings.Builder
		w := &waiter{observer: newObserver(p.dir), file: watchedFile{path: p.file}, text: []byte(policyRow(2)), out: &out}
		if err := w.prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		testlib.AddRecords(t, p.dir, map[string]string{"c/" + ends + "/left/0": "", "c/" + ends + "/left/1": ""})
		if switches {
			testlib.AddRecords(t, p.dir, map[string]string{
				"p/" + stays + ".1":                fmt.Sprintf(`{"content":%q,"meaning":"bbbbbbbbbbbbbbbb","check":100,"switch":200}`, p.after),
				"c/" + stays + "/d/1.commit.201.1": "",
			})
		} else {
			testlib.AddRecords(t, p.dir, map[string]string{"c/" + stays + "/left/1": ""})
		}
		f := Push{Timeout: time.Minute}
		if err := f.wait(t.Context(), w, &out); err != nil {
			t.Error(err)
		}
		want := "\n1 communicator runs on it\n"
		if !switches {
			want = "\nnothing runs on it yet: it takes effect when a communicator is created\n"
		}
		if !strings.Contains(out.String(), "0x2 has ended\n") || !strings.HasSuffix(out.String(), want) {
			t.Errorf("%s", out.String())
		}
	}
}

// A version is in force from the call that was decided, as the ranks' logs say, which may come after the proposed one.
func TestSwitchIsTheDecidedCall(t *testing.T) {
	c := &communicator{}
	c.Changes = []agree.Change{{K: 1, Proposal: &agree.Proposal{Check: 400, Switch: 493}, Decision: &agree.Decision{Commit: true, At: 494}}}
	if said, shown := lastSwitch(c), newStatusJSON(c).Changes[0].Switch; said != "call 494" || shown != 494 {
		t.Errorf("said %s, shown %d, want 494", said, shown)
	}
}
