package testkit

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
)

var update = flag.Bool("update", false, "write the golden sessions anew")

// Sessions runs the sessions of a folder, and compares what is printed with what they say; -update writes them anew.
//
// A session is what a person sees in a terminal. "$ check p.csv" runs tunefit, and "$ cat FILE" shows a file. What goes
// to the standard error begins with "2> ", and an exit code other than 0 stands in brackets. Lines that begin with ##
// are remarks. Below come the files that the session begins with, each after a line "-- NAME --". The machine is a DGX
// H100. $ROOT is the project's folder. Times are TIME, and long numbers have five digits: processors round differently.
func Sessions(t *testing.T, folder string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no session in %s: %v", folder, err)
	}
	for _, name := range names {
		name, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) { session(t, name) })
	}
}

var fileLine = regexp.MustCompile(`(?m)^-- (\S+) --\n`)

func session(t *testing.T, name string) {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	script, files := string(text), ""
	if at := fileLine.FindStringIndex(script); at != nil {
		script, files = script[:at[0]], script[at[0]:]
	}
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv(detect.TunerFileVariable, filepath.Join(testlib.Root, "configs/topo/dgx-h100.xml"))
	heads := fileLine.FindAllStringSubmatchIndex(files, -1)
	for i, h := range heads {
		end := len(files)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		file := files[h[2]:h[3]]
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(files[h[1]:end], "$ROOT", testlib.Root)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var got strings.Builder
	for line := range strings.Lines(script) {
		command, is := strings.CutPrefix(line, "$ ")
		if is || strings.HasPrefix(line, "## ") {
			got.WriteString(line)
		}
		if !is {
			continue
		}
		args := strings.Fields(strings.ReplaceAll(command, "$ROOT", testlib.Root))
		code, out, errs := 0, "", ""
		if args[0] == "cat" {
			text, err := os.ReadFile(args[1])
			if err != nil {
				t.Error(err)
			}
			out = string(text)
		} else {
			code, out, errs = RunAlone(args...)
		}
		got.WriteString(lasting(out, dir))
		for line := range strings.Lines(lasting(errs, dir)) {
			got.WriteString("2> " + line)
		}
		if code != 0 {
			fmt.Fprintf(&got, "[%d]\n", code)
		}
	}
	Golden(t, name, got.String()+files)
}

// Golden compares a text with what a file has; -update writes it anew.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(name); err != nil || string(want) != got {
		t.Errorf("go test -update writes %s anew: %v\n%s", name, err, firstDifference(string(want), got))
	}
}

// firstDifference shows where two texts begin to differ.
func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	part := func(lines []string) string {
		return strings.Join(lines[max(0, min(n-2, len(lines))):min(n+8, len(lines))], "\n")
	}
	return fmt.Sprintf("line %d: got\n%s\nwant\n%s", n+1, part(b), part(a))
}

var (
	times = regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d[0-9.]*)?(Z|[+-]\d\d:\d\d)?\b` +
		`|\b\d\d:\d\d:\d\d\b|\b1[789]\d{8}\b`)
	numbers = regexp.MustCompile(`\b\d+\.\d{6,}(e[+-]?\d+)?\b`)
)

// lasting is a text without what changes from run to run or from machine to machine.
func lasting(text, dir string) string {
	text = strings.NewReplacer(dir+"/", "", testlib.Root, "$ROOT").Replace(text)
	text = times.ReplaceAllString(text, "TIME")
	return numbers.ReplaceAllStringFunc(text, func(number string) string {
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return number
		}
		return strconv.FormatFloat(v, 'g', 5, 64)
	})
}
