//go:build cgo

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/metricstest"
)

// Prometheus is told each call of each rank once, whatever the policy changes to meanwhile, and
// which version is in force.
func TestLiveMetrics(t *testing.T) {
	long(t)
	t.Parallel()
	const ranks, comms, edits = 3, 2, 4
	dir, policy := t.TempDir(), filepath.Join(t.TempDir(), "policy.csv")
	write(t, policy, policyText(1))
	j := startJob(t, built, ranks, args("ranks=%d comms=%d rate=500 haste=2", ranks, comms),
		[]string{"NCCL_TUNER_CONFIG_FILE=" + policy, "NCCL_TUNER_METRICS=" + dir})
	j.tell("go")
	for version := 2; version < 2+edits; version++ {
		write(t, policy, policyText(version))
		for context := range comms {
			j.decided(context, version)
		}
	}
	j.tell("stop")
	scrape := func() metricstest.Samples {
		var texts []string
		files, _ := filepath.Glob(filepath.Join(dir, "*.prom"))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text))
		}
		all, err := metricstest.Parse(metrics.Library, texts...)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	made := 0.
	for _, r := range j.ranks {
		for context := range comms {
			made += float64(r.count(context))
		}
	}
	eventually(t, "all calls are told", func() bool { return scrape().Of("nccl_tuner_calls_total").Sum() >= made })
	all := scrape()
	for _, r := range j.ranks {
		for context := range comms {
			calls := all.Of("nccl_tuner_calls_total", "pid", fmt.Sprint(r.cmd.Process.Pid), "comm",
				fmt.Sprint(context+1))
			if len(calls) != 1 || calls.Sum() != float64(r.count(context)) {
				t.Errorf("rank %d has made %d calls on communicator %d: %v", r.id, r.count(context), context, calls)
			}
		}
	}
	for what, want := range map[string]float64{
		"nccl_tuner_hits_total":   made,
		"nccl_tuner_version_info": ranks * comms,
	} {
		if got := all.Of(what).Sum(); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	if rows, hits := all.Of("nccl_tuner_row_hits_total").Sum(),
		all.Of("nccl_tuner_hits_total", "decided_by", "row").Sum(); rows != hits || rows == 0 {
		t.Errorf("rows have decided %v calls one by one, %v in all", rows, hits)
	}
	if changes := all.Of("nccl_tuner_changes_total", "outcome", "committed").Sum(); changes != ranks*comms*edits {
		t.Errorf("%v changes", changes)
	}
	// A rank that has not seen the save yet when the others propose it does not know how long it took.
	if timed := all.Of("nccl_tuner_change_seconds_count").Sum(); timed == 0 || timed > ranks*comms*edits {
		t.Errorf("the time of %v changes", timed)
	}
	versions := map[string]bool{}
	for _, s := range all.Of("nccl_tuner_version_info") {
		versions[string(s.Metric["policy_version"])] = true
	}
	if len(versions) != 1 {
		t.Errorf("%v", versions)
	}
	j.end()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
