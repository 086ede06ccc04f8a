package report

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// driver uses the page as a person would and writes down what comes of it.
//
//go:embed testdata/driver.js
var driver string

// what driver.js found out. Hashes are of the pixels of a chart.
type driven struct {
	Errors    []string
	Requests  []string
	Scripts   int
	Ink       map[string]int // pixels that are not background, by chart
	Same      map[string]bool
	Changed   map[string]bool
	Tip       string
	MapTip    string
	KeyTip    string   // of the same cell, come to by the keyboard
	KeyAway   bool     // it goes on Escape
	Walk      []string // keys, each with the row and the column that it leads to
	Corner    string   // the last row and column
	TabStops  []int    // of each map, before and after
	Chosen    bool     // by Enter
	RegretTip string
	Away      bool
	Maps      int
	Own       int // cells of the map that the policy leaves to NCCL
	Covered   int
	Overflow  int
	Done      bool
}

// browser is a Chromium, found in PATH.
func browser(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("SKIPPED: no Chromium in PATH, the report was not looked at in a browser (apt-get install chromium)")
	return ""
}

// open runs a page in a browser without a window and returns the document that
// comes of it, and what the browser said.
func open(t *testing.T, path string, page []byte, flags ...string) (dom, said string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "report.html")
	if err := os.WriteFile(file, page, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--user-data-dir=" + filepath.Join(dir, "profile"), "--enable-logging=stderr", "--virtual-time-budget=20000", "--window-size=1440,1000",
	}, flags...)
	cmd := exec.CommandContext(ctx, path, append(args, "--dump-dom", "file://"+file)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, errs.String())
	}
	// The rest is about the machine that the browser misses around it.
	for line := range strings.Lines(errs.String()) {
		if strings.Contains(line, "CONSOLE") {
			said += line
		}
	}
	return out.String(), said
}

// withDriver lets the driver into a page whose security policy keeps others out.
func withDriver(page []byte, script string) []byte {
	sum := sha256.Sum256([]byte(script))
	text := strings.Replace(string(page), "script-src '", "script-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"' '", 1)
	return []byte(strings.Replace(text, "<title>", "<script>"+script+"</script><title>", 1))
}

func drive(t *testing.T, path string, page []byte, flags ...string) driven {
	t.Helper()
	dom, said := open(t, path, withDriver(page, driver), flags...)
	_, rest, found := strings.Cut(dom, `<pre id="driven">`)
	text, _, ended := strings.Cut(rest, "</pre>")
	var d driven
	if err := json.Unmarshal([]byte(html.UnescapeString(text)), &d); !found || !ended || err != nil {
		t.Fatalf("the driver did not end: %v\n%s", errors.Join(err), said)
	}
	return d
}

func TestInBrowser(t *testing.T) {
	path := browser(t)
	in := fitted(t, shippedSweeps...)
	job := &profile.Profile{}
	for _, g := range in.Set.Groups {
		job.Entries = append(job.Entries, profile.Entry{Call: profile.Call{Coll: g.Coll, Shape: profile.Shape{Nodes: g.Nodes, Ranks: g.Ranks}, Bytes: 24 << 20, Algo: -1, Proto: -1}, Calls: 1000, StepCalls: 128, Micros: 1234})
	}
	in.Job, in.Worth = "pretraining-2026-11-22.csv", fit.NewWorth(job, in.Set, fit.DecideByRows(in.Rows), in.Report)
	page := written(t, in)
	_, said := open(t, path, page)
	if said != "" {
		t.Errorf("the browser complains:\n%s", said)
	}
	d := drive(t, path, page)
	if !d.Done || len(d.Errors) > 0 {
		t.Errorf("errors: %q, done: %v", d.Errors, d.Done)
	}
	if len(d.Requests) > 0 {
		t.Errorf("the page asked for %q", d.Requests)
	}
	for _, chart := range []string{"chart", "regret"} {
		if d.Ink[chart] < 2000 {
			t.Errorf("%s has %d pixels that are not background", chart, d.Ink[chart])
		}
	}
	for _, what := range []string{"series off", "none", "ratio", "bw", "band", "regret series off", "theme", "map mode", "filter", "other verdict", "other group", "zoom"} {
		if !d.Changed[what] {
			t.Errorf("%s: nothing changes", what)
		}
	}
	for _, what := range []string{"series on again", "top"} {
		if !d.Same[what] {
			t.Errorf("%s: it does not look as before", what)
		}
	}
	for what, tip := range map[string]struct{ got, want string }{
		"curves": {d.Tip, "fitted"}, "map": {d.MapTip, "fastest measured"}, "regret": {d.RegretTip, "slower than the fastest"},
	} {
		if !strings.Contains(tip.got, tip.want) || !strings.Contains(tip.got, "iB") {
			t.Errorf("tooltip of %s: %q", what, tip.got)
		}
	}
	walkedMap(t, d)
	if !d.Away {
		t.Error("the tooltip stays when the mouse leaves")
	}
	left := 0
	for i := range in.Report.Groups {
		r := &in.Report.Groups[i]
		mine := slices.DeleteFunc(slices.Clone(in.Rows), func(row fit.Row) bool { return row.Key != r.Group.Key })
		for _, s := range newDecisions(r, in.Model, mine) {
			if s.row == nil {
				left++
			}
		}
	}
	if d.Maps != 3 || d.Own != left || d.Covered < 100 {
		t.Errorf("%d maps, %d cells left to NCCL, want %d; %d cells of coverage", d.Maps, d.Own, left, d.Covered)
	}
	if small := drive(t, path, page, "--window-size=500,900"); d.Overflow > 0 || small.Overflow > 0 {
		t.Errorf("the page is %d pixels wider than its window, %d on a small screen", d.Overflow, small.Overflow)
	}
}

// walkedMap judges what the driver saw when it used the keyboard on a map.
func walkedMap(t *testing.T, d driven) {
	t.Helper()
	if d.KeyTip == "" || d.KeyTip != d.MapTip {
		t.Errorf("the keyboard shows %q of a cell, the mouse %q", d.KeyTip, d.MapTip)
	}
	_, lastColumn, _ := strings.Cut(d.Corner, ",")
	lastRow, _, _ := strings.Cut(d.Corner, ",")
	want := []string{
		"ArrowRight 0,1", "ArrowRight 0,2", "ArrowLeft 0,1", "ArrowLeft 0,0", "ArrowLeft 0,0", "ArrowDown 1,0", "ArrowUp 0,0", "ArrowUp 0,0",
		"End 0," + lastColumn, "Home 0,0", "PageDown " + lastRow + ",0", "x " + lastRow + ",0 not taken", "Ctrl-Home 0,0", "Ctrl-End " + d.Corner,
		"Ctrl-ArrowLeft " + d.Corner + " not taken",
	}
	if len(d.Walk) != len(want)+2 || !slices.Equal(d.Walk[:len(want)], want) {
		t.Errorf("keys lead to\n%q, want\n%q", d.Walk, want)
	}
	if len(d.TabStops) != 2*d.Maps || slices.ContainsFunc(d.TabStops, func(n int) bool { return n != 1 }) {
		t.Errorf("%d maps have %v stops of the Tab key", d.Maps, d.TabStops)
	}
	if !d.KeyAway || !d.Chosen {
		t.Errorf("Escape leaves the tooltip: %v; Enter chooses the group: %v", !d.KeyAway, d.Chosen)
	}
}

// What the driver looks for it finds: a page that asks for something, fails or
// draws nothing does not pass.
func TestDriverSees(t *testing.T) {
	path := browser(t)
	page := string(written(t, fitted(t, smallSweep)))
	bad := `fetch("http://127.0.0.1:9/x").catch(() => {}); console.error("seen");` + driver
	text, _ := open(t, path, withDriver([]byte(page), bad))
	if !strings.Contains(text, "connect-src") || !strings.Contains(text, "seen") {
		t.Error("a forbidden request or an error on the console goes unnoticed")
	}
}
