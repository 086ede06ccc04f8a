// Package docs holds the documentation. Its tests run the commands that README.md and
// docs/*.md show, follow their links, and compare the figures that commands print.
package docs

import (
	"cmp"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the project's folder, as seen from this one.
const root = ".."

// pages returns every document for readers: its path from root, and its text.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md",
		"configs/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = string(text)
		}
	}
	if len(texts) < 10 {
		t.Fatalf("only %d documents found", len(texts))
	}
	return texts
}

// Every file and every heading that a document points to exists.
func TestLinks(t *testing.T) {
	followLinks(t, root, pages(t))
}

// followLinks reports relative links that lead nowhere, or to another page than they name. Of all pages it takes the
// text, by the path from the folder dir.
func followLinks(t *testing.T, dir string, all map[string]string) {
	t.Helper()
	for page, text := range all {
		for _, link := range regexp.MustCompile(`([^[]*)\]\(([^)\s]+)\)`).FindAllStringSubmatch(withoutCode(text), -1) {
			if strings.Contains(link[2], "://") {
				continue
			}
			file, anchor, anchored := strings.Cut(link[2], "#")
			if strings.HasSuffix(link[1], ".md") && filepath.Base(link[1]) != filepath.Base(file) {
				t.Errorf("%s: a link to %s reads %s", page, link[2], link[1])
			}
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
				if _, err := os.Stat(filepath.Join(dir, target)); err != nil {
					t.Errorf("%s: %s: %v", page, link[2], err)
				}
			}
			if anchored && !slices.Contains(anchors(all[target]), anchor) {
				t.Errorf("%s: %s: %s has no such heading (it has %q)", page, link[2], target, anchors(all[target]))
			}
		}
	}
}

// anchors names the headings of a text as links do.
func anchors(text string) (names []string) {
	for _, h := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(withoutCode(text), -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

func withoutCode(text string) string {
	return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")
}

// Users read in a hurry: README.md has at most 120 lines, their other pages, docs/*.md, have 14 000 words in all, and no
// cell of a table has more than 25.
func TestUsersPagesAreShort(t *testing.T) {
	const mostWords, mostInCell = 14_000, 25
	words := 0
	for page, text := range pages(t) {
		if filepath.Dir(page) != "docs" && page != "README.md" {
			continue
		}
		if page != "README.md" {
			words += len(strings.Fields(text))
		}
		for _, row := range regexp.MustCompile(`(?m)^\|.*\|$`).FindAllString(withoutCode(text), -1) {
			for cell := range strings.SplitSeq(row, "|") {
				if n := len(strings.Fields(cell)); n > mostInCell {
					t.Errorf("%s: a cell has %d words: %s", page, n, cell)
				}
			}
		}
	}
	if n := strings.Count(pages(t)["README.md"], "\n"); n > 120 {
		t.Errorf("README.md has %d lines", n)
	}
	if words > mostWords {
		t.Errorf("docs/*.md have %d words", words)
	}
}

// Every document can be reached from the README.
func TestNoPageIsLost(t *testing.T) {
	all := pages(t)
	reached := map[string]bool{"README.md": true}
	for todo := []string{"README.md"}; len(todo) > 0; todo = todo[1:] {
		for _, link := range regexp.MustCompile(`\]\(([^)#\s]+)`).FindAllStringSubmatch(all[todo[0]], -1) {
			to := filepath.Join(filepath.Dir(todo[0]), link[1])
			for _, page := range []string{to, filepath.Join(to, "README.md")} {
				if _, ok := all[page]; ok && !reached[page] {
					reached[page] = true
					todo = append(todo, page)
				}
			}
		}
	}
	for page := range all {
		if !reached[page] {
			t.Errorf("no link leads from the README to %s", page)
		}
	}
}

// A command stands in a block marked sh, where TestCommands finds it. What cannot run
// here, because it needs a cluster, begins with another word, such as srun.
func TestCommandsAreMarked(t *testing.T) {
	for page, text := range pages(t) {
		for _, kind := range regexp.MustCompile("(?ms)^```(\\w*)$.*?^```$").FindAllStringSubmatch(text, -1) {
			if kind[1] != "sh" && kind[1] != "mermaid" {
				t.Errorf("%s: a block is marked %q (allowed: sh for commands, mermaid for drawings; indent all else)",
					page, kind[1])
			}
		}
		for _, line := range regexp.MustCompile(`(?m)^ +(build/tunefit|make|go|git) .*$`).FindAllString(
			withoutCode(text), -1) {
			t.Errorf("%s: no test runs %q: put it into a block marked sh", page, line)
		}
	}
}

// Tests that sleep are slow, or fail under load. One that does says why beside it.
func TestSleepsHaveReasons(t *testing.T) {
	sleep := regexp.MustCompile(`(?m)^.*\btime\.Sleep\(.*$`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() && (d.Name() == "build" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") ||
			!strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "/testkit/") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, line := range sleep.FindAllString(string(text), -1) {
			if !strings.Contains(line, " // ") {
				t.Errorf("%s: without a reason: %s", path, strings.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The files that CONTRIBUTING.md sends a reader to are there.
func TestNamedFiles(t *testing.T) {
	all := pages(t)
	for _, page := range []string{"CONTRIBUTING.md", "docs/dev/ARCHITECTURE.md"} {
		for _, name := range regexp.MustCompile("`((?:\\w+/)+[\\w.]+)`").FindAllStringSubmatch(all[page], -1) {
			if _, err := os.Stat(filepath.Join(root, name[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// What rooms import is what docs/dev/ARCHITECTURE.md says. A room is a folder and what is
// below it, as far as that is no room of its own. What only tests use, in folders testkit, belongs to none.
func TestDirections(t *testing.T) {
	const module = "github.com/nccl-tuner-go/nccl-tuner-go/"
	want := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|([^|]*)\\|$").FindAllStringSubmatch(
		pages(t)["docs/dev/ARCHITECTURE.md"], -1) {
		want[row[1]] = []string{}
		for _, name := range strings.Split(row[2], ",") {
			if name = strings.Trim(name, " `"); name != "" {
				want[row[1]] = append(want[row[1]], name)
			}
		}
	}
	roomOf := func(path string) (room string) {
		for r := range want {
			if len(r) > len(room) && (path == r || strings.HasPrefix(path, r+"/")) {
				room = r
			}
		}
		return room
	}
	named := map[string]string{"C": "C", "unsafe": "unsafe", "gonum.org": "gonum", "go.etcd.io": "etcd"}
	list := exec.Command("go", "list", "-tags", "etcd", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...")
	list.Dir = root
	list.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]bool{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(strings.ReplaceAll(line, module, ""))
		room := roomOf(fields[0])
		switch {
		case strings.Contains(fields[0], "/testkit"):
			continue
		case room == "" && !strings.HasPrefix(fields[0], "internal") && fields[0] != "docs":
			t.Errorf("docs/dev/ARCHITECTURE.md has no room for %s", fields[0])
		case room == "":
			continue
		case got[room] == nil:
			got[room] = map[string]bool{}
		}
		for _, path := range fields[1:] {
			host, _, _ := strings.Cut(path, "/")
			if to := cmp.Or(roomOf(path), named[host]); to != "" && to != room {
				got[room][to] = true
			}
		}
	}
	for room, imports := range want {
		slices.Sort(imports)
		if found := slices.Sorted(maps.Keys(got[room])); !slices.Equal(found, imports) {
			t.Errorf("docs/dev/ARCHITECTURE.md says that %s imports %q; it imports %q", room, imports, found)
		}
	}
}
