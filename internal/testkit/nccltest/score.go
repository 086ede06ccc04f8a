package nccltest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
)

// Score counts values that agree with NCCL's.
type Score struct{ agree, total int }

// Add counts one value.
func (s *Score) Add(same bool) {
	s.total++
	if same {
		s.agree++
	}
}

func (s Score) String() string {
	return fmt.Sprintf("%d of %d (%.2f %%)", s.agree, s.total, 100*float64(s.agree)/float64(max(1, s.total)))
}

// Same counts whether two values are equal, and fails the test where they are not.
func Same[T comparable](t testing.TB, s *Score, field, where string, want, got T) {
	t.Helper()
	if s.Add(want == got); want != got {
		t.Errorf("%s, %s: NCCL %v, here %v", where, field, want, got)
	}
}

// Compare scores the leaves of want; a row such as [type, hops, bandwidth] is a leaf. It ignores what only got has,
// because large golden files are cut. It returns the first difference.
func Compare(s *Score, got, want any) (diff string) { return s.compare("", got, want) }

func (s *Score) compare(path string, got, want any) (diff string) {
	keep := func(d string) {
		if diff == "" {
			diff = d
		}
	}
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for k, v := range w {
			keep(s.compare(path+"/"+k, g[k], v))
		}
		return diff
	case []any:
		g, _ := got.([]any)
		if isRow(w) {
			if len(g) > len(w) {
				got = g[:len(w)]
			}
			break
		}
		if len(g) != len(w) {
			keep(fmt.Sprintf("%s: got %d entries, want %d", path, len(g), len(w)))
		}
		for i, v := range w {
			var e any
			if i < len(g) {
				e = g[i]
			}
			keep(s.compare(fmt.Sprintf("%s/%d", path, i), e, v))
		}
		return diff
	}
	same := reflect.DeepEqual(got, want)
	s.Add(same)
	if !same {
		keep(fmt.Sprintf("%s: got %.200s, want %.200s", path, fmt.Sprint(got), fmt.Sprint(want)))
	}
	return diff
}

// isRow tells rows such as ["PIX",4,12] from lists.
func isRow(list []any) bool {
	if len(list) < 3 {
		return false
	}
	_, named := list[0].(string)
	_, numbered := list[1].(float64)
	return named && numbered
}

// AsJSON is what v looks like after writing it as JSON and reading it back.
func AsJSON(t testing.TB, v any) any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// LoadJSON reads a file, which may be gzipped, into a value.
func LoadJSON(t testing.TB, path string, into any) {
	t.Helper()
	if err := json.Unmarshal(Read(t, path), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// Read returns what a file holds, unpacked.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil && strings.HasSuffix(path, packed) {
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(b)); err == nil {
			b, err = io.ReadAll(r)
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return b
}
