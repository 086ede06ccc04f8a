package livejobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/metricstest"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

const (
	aa = `{"content":"aaaa","meaning":"aaaaaaaaaaaaaaaa"}`
	bb = `"content":"bbbb","meaning":"bbbbbbbbbbbbbbbb"`
)

// twoRanks is a communicator of two ranks on other machines.
func twoRanks(comm string, more map[string]string) map[string]string {
	all := map[string]string{
		"c/" + comm + "/init":   aa,
		"c/" + comm + "/slot/0": "x n1 11 1 1",
		"c/" + comm + "/slot/1": "x n2 22 1 1",
	}
	for key, value := range more {
		all[key] = value
	}
	return all
}

// listed is what status prints of a rendezvous.
func listed(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	if err := (&View{Rendezvous: dir}).Run(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// What a person reads of each state.
func TestStatusSays(t *testing.T) {
	const comm, proposal = "0000000000000007-2", `{` + bb + `,"check":100,"switch":200,"slot":1}`
	c := "c/" + comm + "/"
	for _, test := range []struct {
		name  string
		more  map[string]string
		lines []string // that are in the output
	}{
		{"idle", nil, []string{"0x7  2  2 hosts  aaaaaaaaaaaa  -  -"}},
		{"pending", map[string]string{"p/" + comm + ".1": proposal, c + "a/1/1-0000000000000005": ""}, []string{
			"0x7  2  2 hosts  aaaaaaaaaaaa  -  to bbbbbbbbbbbb: 1 of 2 acknowledged",
			"0x7: change 1 to version bbbbbbbbbbbb, proposed at TIME by n2:22 (rank index 1). Ranks acknowledge at their " +
				"call 100 and change at call 200.",
			"  Not acknowledged: n1:11 (rank index 0).",
		}},
		{"nobody", map[string]string{"p/" + comm + ".1": proposal},
			[]string{"0x7  2  2 hosts  aaaaaaaaaaaa  -  to bbbbbbbbbbbb: 0 of 2 acknowledged",
				"  No rank has acknowledged yet."}},
		{"committed", map[string]string{"p/" + comm + ".1": proposal, c + "d/1.commit.201.2": ""},
			[]string{"0x7  2  2 hosts  bbbbbbbbbbbb  -  -"}},
		{"refused", map[string]string{"p/" + comm + ".1": proposal, c + "d/1.cannot-stage.0.1": "",
			c + "why/1": "no room"}, []string{
			"0x7  2  2 hosts  aaaaaaaaaaaa  -  refused",
			"0x7: change 1 to version bbbbbbbbbbbb was refused at TIME: n1:11 (rank index 0) cannot use it: no room.",
			"  What to do: mend what it says, then save the file again; after 5 such refusals the ranks wait for that",
		}},
		{"refused often", map[string]string{"p/" + comm + ".7": proposal, c + "d/7.misaligned.0.1": ""},
			[]string{"0x7: change 7 to version bbbbbbbbbbbb was refused at TIME (refusal 7 since version " +
				"aaaaaaaaaaaa came): the ranks have not made the same calls since init."}},
		{"misaligned", map[string]string{"p/" + comm + ".1": proposal, c + "d/1.misaligned.0.1": ""}, []string{
			"0x7  2  2 hosts  aaaaaaaaaaaa  -  refused",
			"0x7: change 1 to version bbbbbbbbbbbb was refused at TIME: the ranks have not made the same calls " +
				"since init.",
			"  What to do: call ncclGroupSimulateEnd on all ranks, with the same collectives, or on none: on some " +
				"only, it keeps them apart. The ranks try again by themselves, and the change comes once all have " +
				"made the same calls",
		}},
		{"alike", map[string]string{"p/" + comm + ".1": proposal, c + "d/1.alike.0.1": ""}, []string{
			"0x7: change 1 to version bbbbbbbbbbbb was refused at TIME: all calls of the communicator were alike, so " +
				"nothing would have told that a rank had made one more than the others.",
		}},
		{"duplicate", map[string]string{"p/" + comm + ".1": `{"freeze":true}`}, []string{
			"0x7  2  2 hosts  aaaaaaaaaaaa  -  never again",
			"0x7: keeps version aaaaaaaaaaaa for good since change 1 was refused at TIME: a second communicator with " +
				"the same id exists, or this one's id was used before.",
		}},
		{"ending", map[string]string{c + "left/0": ""}, []string{"0x7  2  2 hosts  aaaaaaaaaaaa  -  ending",
			"0x7: 1 of 2 ranks have ended it"}},
		{"compared",
			map[string]string{
				c +
					"note/3": `{"nodes":2,"ranks":2,"a":{"name":"p.csv"},"b":{"name":"NCCL's default"},"step_seconds":0.5,"block_seconds":8,"state":"running","pairs":7,"steps":70,"mean":-0.03,"low":-0.04,"high":-0.02}`,
				c + "note/2": "an older one"}, []string{
				"0x7: p.csv against NCCL's default, by turns: step time -3.0 % (-4.0 .. -2.0): faster so far (7 pairs of " +
					"blocks of 8s, 70 steps of some 500ms)"}},
		{"learning", map[string]string{c + "note/3": `{"format":"nccl-tuner-go learning","version":3,` +
			`"nodes":1,"ranks":2,"state":"trying","blocks":31,"block_seconds":8,"step_seconds":0.8,"lost_steps":3.2,"lost_error":1,"factors":[{"collective":"allreduce","min_bytes":4096,` +
			`"max_bytes":4096,"settled":true,"arms":[{"algorithm":"ring","protocol":"ll","blocks":8},` +
			`{"algorithm":"tree","protocol":"ll","effect":-0.02,"error":0.002,"blocks":9,"faster":true}]}]}`},
			[]string{"0x7: it learns, trying. 31 blocks of 8 s; step 800 ms. allreduce 4KiB tree/ll instead of ring/ll: " +
				"-2.0 % of the step (-2.4 .. -1.6). 1 of 1 call signature settled. Lost so far: 3 steps (1 .. 5)."}},
		{"compared, damaged", map[string]string{c + "note/3": "?"},
			[]string{"0x7: its comparison cannot be read: record:1:1: invalid character '?' looking for beginning of value"}},
		{"damaged", map[string]string{"p/" + comm + ".1": "?"},
			[]string{"0x7: a record cannot be read: p/" + comm +
				".1: invalid character '?' looking for beginning of value"}},
		{"ended", map[string]string{c + "left/0": "", c + "left/1": ""},
			[]string{"1 communicator that has ended left records behind (--all lists them, tunefit gc removes them)"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out := listed(t, testlib.Records(t, twoRanks(comm, test.more)))
			got := plain(out)
			for _, line := range test.lines {
				if !strings.Contains(got, line+"\n") {
					t.Errorf("%q is not in\n%s", line, got)
				}
			}
		})
	}
	missing := map[string]string{"c/0000000000000007-4/init": aa, "c/0000000000000007-4/slot/2": "x n1 11 1 1"}
	out := listed(t, testlib.Records(t, missing))
	if !strings.Contains(plain(out), "0x7  1 of 4  n1  aaaaaaaaaaaa  -  not yet: ranks are missing\n") {
		t.Error(out)
	}
}

// plain is output without times and the width of columns.
func plain(out string) string {
	var lines []string
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		for i, word := range words {
			if len(word) >= 8 && word[2] == ':' && word[5] == ':' {
				words[i] = "TIME" + word[8:]
			}
		}
		text := strings.Join(words, " ")
		if strings.HasPrefix(text, "0x7 ") { // the table
			text = strings.Join(splitColumns(line), "  ")
		} else if strings.HasPrefix(line, "  ") {
			text = "  " + text
		}
		lines = append(lines, text+"\n")
	}
	return strings.Join(lines, "")
}

// splitColumns returns the columns of a line but the time.
func splitColumns(line string) (columns []string) {
	for _, column := range strings.Split(strings.TrimSpace(line), "  ") {
		if column = strings.TrimSpace(column); column != "" && !(len(column) == 8 && column[2] == ':') {
			columns = append(columns, column)
		}
	}
	return columns
}

// here is an identity of a member in this process.
func here(t *testing.T) string {
	t.Helper()
	host, err := os.Hostname()
	space, noSpace := os.Readlink("/proc/self/ns/pid")
	boot, noBoot := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err := errors.Join(err, noSpace, noBoot); err != nil {
		t.Skipf("SKIPPED: this process cannot be named: %v", err)
	}
	return fmt.Sprintf("x %s %d %s 0 %s", host, os.Getpid(), strings.Trim(space, "pid:[]"),
		strings.ReplaceAll(string(boot), "-", "")[:16])
}

// A file that ranks refuse as it is now is told of in the table, below it, in JSON and to Prometheus.
func TestStatusOfABadFile(t *testing.T) {
	file := testlib.File(t, "p.csv", "allreduce,0,inf,rign,simple,2,-1,-1\n")
	key, digest, content := bundleOf(file, policyRow(1))
	all := map[string]string{key: content}
	for comm, ranks := range map[string][2]string{
		"0000000000000001-2": {here(t), here(t)}, "0000000000000002-2": {"x n1 11 1 1", "x n2 22 1 1"},
		"0000000000000003-2": {here(t), "x n2 22 1 1"},
	} {
		all["c/"+comm+"/init"] = fmt.Sprintf(`{"content":%q,"meaning":"aaaaaaaaaaaaaaaa"}`, digest)
		all["c/"+comm+"/slot/0"], all["c/"+comm+"/slot/1"] = ranks[0], ranks[1]
	}
	all["c/0000000000000001-2/left/0"], all["c/0000000000000001-2/left/1"] = "", ""
	dir := testlib.Records(t, all)
	shows := func(refused float64) (said string) {
		t.Helper()
		for _, f := range []View{{}, {JSON: true}, {Prometheus: true}} {
			var out strings.Builder
			f.Rendezvous = dir
			if err := f.Run(&out); (err != nil) != (refused > 0 && !f.Prometheus) {
				t.Errorf("%+v: %v", f, err)
			}
			said += out.String()
			if f.Prometheus {
				all, err := metricstest.Parse(metrics.Status, out.String())
				if got := all.Of("nccl_tuner_status_policy_refused").Sum(); err != nil || got != refused {
					t.Errorf("%v of them refuse a file, want %v: %v", got, refused, err)
				}
			}
		}
		return said
	}
	why := file + `:1:4: unknown algorithm "rign"`
	said := shows(2)
	if strings.Count(said, file+" cannot be used as it is now: "+why) != 1 ||
		strings.Count(said, "  file refused\n") != 2 ||
		strings.Count(said, `"why": "`+strings.ReplaceAll(why, `"`, `\"`)) != 2 {
		t.Errorf("%q is not in\n%s", why, said)
	}
	if err := os.WriteFile(file, []byte(policyRow(2)), 0o666); err != nil {
		t.Fatal(err)
	}
	if said := shows(0); strings.Contains(said, "refused\n") {
		t.Error(said)
	}
	// It is good, and anybody can change it: ranks on this machine refuse it. Of the others that is not known.
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if said := shows(1); !strings.Contains(said, "everybody can write to it") {
		t.Error(said)
	}
	// Ranks on other machines have a file of their own, and what is not here says nothing of it.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if said := shows(1); !strings.Contains(said, file+" cannot be used as it is now: there is no such file.\n") {
		t.Error(said)
	}
	testlib.AddRecords(t, dir, map[string]string{"c/0000000000000003-2/left/0": ""})
	shows(0)
}

// Looking leaves no trace.
func TestStatusWritesNothing(t *testing.T) {
	dir := testlib.Records(t, twoRanks("0000000000000007-2", nil))
	before := listing(t, dir)
	if err := errors.Join((&View{Rendezvous: dir, All: true, JSON: true}).Run(io.Discard),
		(&Cleanup{Rendezvous: dir, DryRun: true}).Run(io.Discard)); err != nil {
		t.Error(err)
	}
	if after := listing(t, dir); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	filepath.WalkDir(dir, func(path string, d os.DirEntry, _ error) error {
		info, err := d.Info()
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(path + " " + info.ModTime().String() + "\n")
		return nil
	})
	return all.String()
}

// What others have written does not steer the terminal.
func TestStatusOfOthersRecords(t *testing.T) {
	dir := testlib.Records(t,
		twoRanks("0000000000000007-2",
			map[string]string{"p/0000000000000007-2.1": `{` + bb + `,"check":100,"switch":200}`,
				"c/0000000000000007-2/d/1.cannot-stage.0.1": "", "c/0000000000000007-2/why/1": "\x1b[2Jgone"}))
	out := listed(t, dir)
	if strings.Contains(out, "\x1b") || !strings.Contains(out, `cannot use it: \u001b[2Jgone`) {
		t.Errorf("%q", out)
	}
}

// silent is a store that never answers.
type silent struct{ agree.Records }

func (silent) Made(ctx context.Context, _ string) (map[string]time.Time, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A store that does not answer is named in plain words.
func TestStoreDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObserver("etcd://host:2379/jobs")
		o.etcd = func(context.Context) ([]tuner.RendezvousView, []error, error) {
			return []tuner.RendezvousView{{Name: o.name, Records: silent{}}}, nil, nil
		}
		_, err := o.look(t.Context())
		if err == nil || err.Error() != "etcd://host:2379/jobs: no answer within 10s" {
			t.Error(err)
		}
	})
}
