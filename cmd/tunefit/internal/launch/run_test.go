package launch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// stubborn starts processes that end at no request, in process groups of their own, and that hold the output.
const stubborn = `trap "" TERM HUP INT; for i in 1 2 3; do (set -m; sh -c 'trap "" TERM; echo $$ > "$0.tmp"; mv "$0.tmp" "$0"; while :; do sleep 3600; done' "$0/$i" & ) ; done; while :; do sleep 3600; done`

// What does not end when it is asked to is killed, with all that it started.
func TestRunKillsTree(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		await(t, "3 processes", func() bool { ids, _ := filepath.Glob(dir + "/?"); return len(ids) == 3 })
	}()
	var out bytes.Buffer
	if err := Run(ctx, []string{"sh", "-c", stubborn, dir}, nil, "", &out, time.Millisecond); !errors.Is(err, context.Canceled) {
		t.Errorf("%v: %s", err, &out)
	}
	mustBeGone(t, dir)
}

// What a command leaves when it ends is ended, too.
func TestRunLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	left := `sh -c 'echo $$ > "$0.tmp"; mv "$0.tmp" "$0"; exec sleep 3600' "$0/1" > "$0/out" 2>&1 & until [ -e "$0/1" ]; do sleep 0.01; done`
	if err := Run(t.Context(), []string{"sh", "-c", left, dir}, nil, "", io.Discard, time.Minute); err != nil {
		t.Error(err)
	}
	mustBeGone(t, dir)
}

// A command ends also when tunefit is killed.
func TestRunOfKilled(t *testing.T) {
	if dir := os.Getenv("LAUNCH_TEST_KILLED"); dir != "" {
		Run(t.Context(), []string{"sh", "-c", `echo $$ > "$0.tmp"; mv "$0.tmp" "$0"; exec sleep 3600`, dir + "/1"}, nil, "", io.Discard, time.Minute)
		return
	}
	dir := t.TempDir()
	self := exec.Command(os.Args[0], "-test.run=^TestRunOfKilled$")
	self.Env = append(os.Environ(), "LAUNCH_TEST_KILLED="+dir)
	if err := self.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the program", func() bool { ids, _ := filepath.Glob(dir + "/?"); return len(ids) == 1 })
	self.Process.Kill()
	self.Wait()
	mustBeGone(t, dir)
}

// Output arrives whole and in order, errors among it.
func TestRunOutput(t *testing.T) {
	var out bytes.Buffer
	if err := Run(t.Context(), []string{"sh", "-c", `i=0; while [ $i -lt 2000 ]; do echo "line $i of the output"; echo "line $i of the errors" >&2; i=$((i+1)); done`}, nil, "", &out, time.Minute); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for s := bufio.NewScanner(&out); s.Scan(); lines++ {
		if what := []string{"output", "errors"}[lines%2]; !strings.HasSuffix(s.Text(), what) {
			t.Fatalf("line %d: %s", lines, s.Text())
		}
	}
	if lines != 4000 {
		t.Errorf("%d lines", lines)
	}
}
