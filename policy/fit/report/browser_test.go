package report

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// driver uses the page as a person would and writes down what comes of it.
//
//go:embed testdata/driver.js
var driver string

// what driver.js found out. Hashes are of the pixels of a chart.
type driven struct {
	Errors   []string
	Requests []string
	Scripts  int
	Ink      int // pixels of the chart that are not background
	Same     map[string]bool
	Changed  map[string]bool
	Tip      string
	MapTip   string
	KeyTip   string   // of the same point, come to by the keyboard
	KeyAway  bool     // it goes on Escape
	Walk     []string // keys, each with the row and the column that it leads to
	Corner   string   // the last row and column
	TabStops []int    // of each map, before and after
	Chosen   bool     // by Enter
	Away     bool
	Maps     int
	Own      int // points of the map that the policy leaves to NCCL
	OwnWins  int // points of the map in which NCCL's default is the fastest measured
	Lines    int // straight pieces of the charts' lines
	Bent     int // and others
	Done     bool
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
func open(t *testing.T, path string, page []byte) (dom, said string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "report.html")
	if err := os.WriteFile(file, page, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path,
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--enable-logging=stderr", "--virtual-time-budget=20000",
		"--window-size=1440,1000",
		"--dump-dom", "file://"+file)
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
	text := strings.Replace(string(page), "script-src '",
		"script-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"' '", 1)
	return []byte(strings.Replace(text, "<title>", "<script>"+script+"</script><title>", 1))
}

func drive(t *testing.T, path string, page []byte) driven {
	t.Helper()
	var d driven
	dom, said := open(t, path, withDriver(page, driver))
	readDriven(t, dom, said, &d)
	return d
}

// readDriven reads what a script has written at the end of a document.
func readDriven(t *testing.T, dom, said string, into any) {
	t.Helper()
	_, rest, found := strings.Cut(dom, `<pre id="driven">`)
	text, _, ended := strings.Cut(rest, "</pre>")
	if err := json.Unmarshal([]byte(html.UnescapeString(text)), into); !found || !ended || err != nil {
		t.Fatalf("the driver did not end: %v\n%s", err, said)
	}
}

// No page scrolls sideways, on a desk, a tablet or a telephone, however long the names of its files and the reasons for
// what was refused are. On a desk nor do maps of 1KiB to 1GiB. Frames stand in for narrow windows, which Chromium has not.
func TestNoSidewaysScroll(t *testing.T) {
	path := browser(t)
	in := fitted(t, "../../../docs/measured/mi355x-allreduce.csv")
	name := strings.Repeat("FI_CXI_DEFAULT_CQ_SIZE_131072_", 6)
	in.Rejected = []fit.Refusal{{Reason: strings.Repeat("a long reason of many words ", 12), Rows: 1}}
	in.File.Provenance.Files = []model.Source{{Name: name + ".csv", SHA256: strings.Repeat("0123456789abcdef", 4),
		Rows: 1}}
	in.Report.Groups[0].Group.Contradictions = []fit.Contradiction{{A: name, B: name}}
	const script = `addEventListener("load", () => setTimeout(() => {
		const wide = [...document.querySelectorAll("#maps .scroll")].map((m) => m.scrollWidth - m.clientWidth);
		parent.postMessage([innerWidth, document.documentElement.scrollWidth, Math.max(...wide)], "*");
	}, 500));`
	a6000 := written(t, fitted(t, "../../../docs/measured/a6000-allreduce.csv"))
	pages := [][]byte{written(t, in), written(t, fitted(t, shippedSweeps...)), a6000}
	for i, page := range pages {
		source := html.EscapeString(string(withDriver(page, script)))
		var frames strings.Builder
		for _, width := range []int{1280, 768, 420} {
			fmt.Fprintf(&frames, `<iframe style="border:0;width:%dpx;height:900px" srcdoc="%s"></iframe>`,
				width, source)
		}
		wrapper :=
			`<!DOCTYPE html><pre id="driven"></pre><script>const all = []; onmessage = (e) => { all.push(e.data); driven.textContent = JSON.stringify(all); };</script>` + frames.String()
		var widths [][3]int
		dom, said := open(t, path, []byte(wrapper))
		readDriven(t, dom, said, &widths)
		if len(widths) != 3 {
			t.Errorf("page %d: %d frames answer\n%s", i, len(widths), said)
		}
		for _, w := range widths {
			if w[1] > w[0] {
				t.Errorf("page %d is %d pixels wide in a window of %d", i, w[1], w[0])
			}
			if w[0] == 1280 && w[2] > 0 {
				t.Errorf("page %d hides %d pixels of a map in a window of %d", i, w[2], w[0])
			}
		}
	}
}

func TestInBrowser(t *testing.T) {
	path := browser(t)
	in := fitted(t, shippedSweeps...)
	job := &profile.Profile{}
	for _, g := range in.Set.Groups {
		job.Entries = append(job.Entries,
			profile.Entry{CallKind: profile.CallKind{Call: nccl.Call{Coll: g.Coll, Bytes: 24 << 20}, Comm: g.Comm,
				Cell: nccl.Cell{Algo: -1, Proto: -1}}, Calls: 1000, StepCalls: 128, Micros: 1234})
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
	if d.Ink < 2000 {
		t.Errorf("the chart has %d pixels that are not background", d.Ink)
	}
	for _, what := range []string{"series off", "none", "ratio", "bw", "theme",
		"map mode", "filter", "other group", "zoom"} {
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
		"curves": {d.Tip, "curve"}, "map": {d.MapTip, "fastest measured"},
	} {
		if !strings.Contains(tip.got, tip.want) || !strings.Contains(tip.got, "iB") {
			t.Errorf("tooltip of %s: %q", what, tip.got)
		}
	}
	walkedMap(t, d)
	if !d.Away {
		t.Error("the tooltip stays when the mouse leaves")
	}
	left, ownWins := 0, 0
	for i := range in.Report.Groups {
		r := &in.Report.Groups[i]
		for _, s := range newDecisions(r, in.Model, in.Rows) {
			if s.row == nil {
				left++
			}
			if s.winner == nil {
				ownWins++
			}
		}
	}
	if d.Maps != 3 || d.Own != left {
		t.Errorf("%d maps, %d points left to NCCL, want %d", d.Maps, d.Own, left)
	}
	if d.OwnWins != ownWins || ownWins == 0 {
		t.Errorf("NCCL's default wins in %d points, want %d", d.OwnWins, ownWins)
	}
	if d.Lines < 1000 || d.Bent > 0 {
		t.Errorf("lines of %d straight pieces and %d bent ones", d.Lines, d.Bent)
	}
}

// walkedMap judges what the driver saw when it used the keyboard on a map.
func walkedMap(t *testing.T, d driven) {
	t.Helper()
	if d.KeyTip == "" || d.KeyTip != d.MapTip {
		t.Errorf("the keyboard shows %q of a point, the mouse %q", d.KeyTip, d.MapTip)
	}
	_, lastColumn, _ := strings.Cut(d.Corner, ",")
	lastRow, _, _ := strings.Cut(d.Corner, ",")
	want := []string{
		"ArrowRight 0,1", "ArrowRight 0,2", "ArrowLeft 0,1", "ArrowLeft 0,0", "ArrowLeft 0,0", "ArrowDown 1,0",
		"ArrowUp 0,0", "ArrowUp 0,0",
		"End 0," + lastColumn, "Home 0,0", "PageDown " + lastRow + ",0", "x " + lastRow + ",0 not taken",
		"Ctrl-Home 0,0", "Ctrl-End " + d.Corner,
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
