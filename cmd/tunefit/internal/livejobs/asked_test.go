package livejobs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// How often NCCL has asked is in the metrics of a rank on this machine.
func TestStatusAsked(t *testing.T) {
	dir := t.TempDir()
	rank := exec.Command("cat") // until its input ends
	rank.Env = []string{tuner.EnvMetrics + "=" + dir}
	if _, err := rank.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := rank.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = rank.Process.Kill(), rank.Wait() }()
	words := strings.Fields(identity.New()) // random, host, PID, namespace, start, boot
	slot := fmt.Sprintf("x %s %d %s 0 %s", words[1], rank.Process.Pid, words[3], words[5])
	process, err := identity.Parse(slot)
	if err != nil {
		t.Fatal(err)
	}
	records := testlib.Records(t, twoRanks("0000000000000007-2", map[string]string{"c/0000000000000007-2/slot/0": slot}))
	write := func(calls float64, last time.Time) {
		page := metrics.NewPage(metrics.Library)
		page.Add(metrics.Calls, calls, "1", "0x7", "2", "2")
		seconds := 0.
		if !last.IsZero() {
			seconds = float64(last.Unix())
		}
		page.Add(metrics.LastCall, seconds, "1", "0x7", "2", "2")
		if err := os.WriteFile(filepath.Join(dir, metrics.FileName(process)), page.Text(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const quiet = "not asked for a minute or more: 0x7"

	if out := listed(t, records); strings.Contains(out, "asked") {
		t.Errorf("without metrics:\n%s", out)
	}
	old := filepath.Join(records, "c/0000000000000007-2/init")
	for _, c := range []struct {
		calls float64
		last  time.Duration // ago; 0: never
		age   time.Duration // of the communicator
		line  string
		quiet bool
	}{
		{1204, time.Second, time.Hour, "1204 times, last <1m ago -", false},
		{40, 12*time.Minute + 30*time.Second, time.Hour, "40 times, last 12m ago -", true},
		{40, 125*time.Minute + 30*time.Second, time.Hour, "40 times, last 2h05m ago -", true},
		{0, 0, time.Hour, "not yet -", true},
		{0, 0, 0, "not yet -", false}, // it has just begun
	} {
		var last time.Time
		if c.last > 0 {
			last = time.Now().Add(-c.last)
		}
		write(c.calls, last)
		begun := time.Now().Add(-c.age)
		if err := os.Chtimes(old, begun, begun); err != nil {
			t.Fatal(err)
		}
		out := listed(t, records)
		if !strings.Contains(strings.Join(strings.Fields(out), " "), c.line) || strings.Contains(out, quiet) != c.quiet {
			t.Errorf("no %q, or %q wrongly, in\n%s", c.line, quiet, out)
		}
	}

	write(7, time.Unix(1700000000, 0))
	var out strings.Builder
	if err := (&View{Rendezvous: records, JSON: true}).Run(&out); err != nil {
		t.Fatal(err)
	}
	var all []Communicator
	if err := json.Unmarshal([]byte(out.String()), &all); err != nil || len(all) != 1 || all[0].Asked == nil ||
		all[0].Asked.Calls != 7 || all[0].Asked.Last.Unix() != 1700000000 {
		t.Errorf("%v: %s", err, out.String())
	}
}
