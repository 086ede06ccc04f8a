package main

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
)

// Eight processes, each a rank of a program that runs over all sizes in 40 passes, decide each call alike and as the
// plan asks; the scenario checks each answer. NCCL asks in the ways of several releases.
func TestPassesOfProcesses(t *testing.T) {
	logs := make([][]string, 8)
	var wait sync.WaitGroup
	for i := range logs {
		wait.Go(func() { logs[i] = scenario(t, built.scenarios, built.so, "passes") })
	}
	wait.Wait()
	folder := regexp.MustCompile(`/[^ ="]*/Test[^ ="]*/`) // each rank's own
	for i, log := range logs {
		for at := range log {
			log[at] = folder.ReplaceAllString(log[at], "")
		}
		if !slices.Equal(log, logs[0]) {
			t.Errorf("rank %d logs otherwise than rank 0", i)
		}
	}
	const passes, sizes = 40, 12
	begun, decisions := 0, 0
	for _, line := range logs[0] {
		switch e, err := record.ReadEvent([]byte(line)); e := e.(type) {
		case *record.Start:
			if e.Passes != passes {
				t.Errorf("%s", line)
			}
		case *record.Pass:
			begun++
		case *record.Decision:
			if e.Pass > 0 {
				decisions++
			}
		default:
			if !strings.HasPrefix(line, "WARN") || !strings.Contains(line, "all 40 passes of ") || err != nil {
				t.Errorf("%s (%v)", line, err)
			}
		}
	}
	// Of the four ways one asks twice. A size that repeats does not reach Go.
	if warned := strings.Count(strings.Join(logs[0], "\n"), "WARN"); begun != 4*passes || decisions != 5*passes*sizes ||
		warned != 4 {
		t.Errorf("%d passes, %d decisions, %d warnings", begun, decisions, warned)
	}
}

// So do ranks of one process.
func TestPassesOfThreads(t *testing.T) {
	log := scenario(t, built.scenarios, built.so, "passes_of_threads")
	if warned := strings.Count(strings.Join(log, "\n"), "WARN"); warned != 8 {
		t.Errorf("%d warnings", warned)
	}
}

// A rank that cannot read its part of the plan has no communicator.
func TestPassesThatCannotBeRead(t *testing.T) {
	log := strings.Join(scenario(t, built.scenarios, built.so, "passes_unread"), "\n")
	for _, want := range []string{"absent: no such file", `absent:2: "missing.csv" cannot be used`,
		`missing.csv:1:4: unknown algorithm "rign"`} {
		if !strings.Contains(log, want) {
			t.Errorf("not said: %s\n%s", want, log)
		}
	}
	if failed := strings.Count(log, "WARN TUNER/Go: init fails: "); failed != 3 {
		t.Errorf("%d inits fail\n%s", failed, log)
	}
}
