package topo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// goldenSystems returns the folders of the systems whose answers were taken from NCCL. They lie beside the checkout and
// are not part of it.
func goldenSystems(t testing.TB) []string {
	t.Helper()
	const dir = "../../shared/data/topo"
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("NCCL's answers are not there, so nothing is compared with them: %v", err)
	}
	var dirs []string
	for _, pattern := range []string{dir + "/*/system.xml", dir + "/fuzz/*/system.xml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			dirs = append(dirs, filepath.Dir(f))
		}
	}
	return dirs
}

func readGolden(t testing.TB, dir string) *Document {
	t.Helper()
	doc, err := ReadFile(filepath.Join(dir, "system.xml"))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// score counts values that agree with NCCL's.
type score struct{ agree, total int }

func (s *score) add(same bool) {
	s.total++
	if same {
		s.agree++
	}
}

func (s score) String() string {
	return fmt.Sprintf("%d of %d (%.2f %%)", s.agree, s.total, 100*float64(s.agree)/float64(max(1, s.total)))
}

// compare scores the leaves of want; a row such as [type, hops, bandwidth] is a leaf. What only got has is not looked
// at, since large golden files are cut. The first difference is returned.
func compare(s *score, path string, got, want any) (diff string) {
	keep := func(d string) {
		if diff == "" {
			diff = d
		}
	}
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for k, v := range w {
			keep(compare(s, path+"/"+k, g[k], v))
		}
		return diff
	case []any:
		g, _ := got.([]any)
		if isRow(w) {
			if len(g) > len(w) {
				g = g[:len(w)]
			}
			same := reflect.DeepEqual(g, w)
			s.add(same)
			if !same {
				keep(fmt.Sprintf("%s: got %v, want %v", path, g, w))
			}
			return diff
		}
		if len(g) != len(w) {
			keep(fmt.Sprintf("%s: got %d entries, want %d", path, len(g), len(w)))
		}
		for i, v := range w {
			var e any
			if i < len(g) {
				e = g[i]
			}
			keep(compare(s, fmt.Sprintf("%s/%d", path, i), e, v))
		}
		return diff
	}
	same := reflect.DeepEqual(got, want)
	s.add(same)
	if !same {
		keep(fmt.Sprintf("%s: got %v, want %v", path, got, want))
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

func asJSON(t testing.TB, v any) any {
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

func loadJSON(t testing.TB, path string, into any) bool {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return true
}

func TestPathsAgreeWithNCCL(t *testing.T) {
	scores := map[Stage]*score{StageRaw: {}, StageNoComm: {}, StageSingle: {}}
	var reports, multi score
	for _, dir := range goldenSystems(t) {
		doc := readGolden(t, dir)
		var golden struct{ Stages map[Stage]any }
		if !loadJSON(t, filepath.Join(dir, "paths.json"), &golden) {
			continue
		}
		if diff := compare(&multi, "", asJSON(t, totalsOfTwo(t, doc)), golden.Stages["multi"]); diff != "" {
			t.Errorf("%s multi: %s", dir, diff)
		}
		for stage, s := range scores {
			want, ok := golden.Stages[stage]
			if !ok {
				continue
			}
			report, err := Paths(doc, BuildOptions{}, Settings{}, stage)
			if err != nil {
				t.Error(err)
				continue
			}
			got := asJSON(t, report)
			reports.add(reflect.DeepEqual(got, want))
			if diff := compare(s, "", got, want); diff != "" {
				t.Errorf("%s %s: %s", dir, stage, diff)
			}
		}
	}
	for stage, s := range scores {
		t.Logf("paths.json, %s: %v values agree", stage, s)
	}
	t.Logf("paths.json, multi: %v values agree", multi)
	t.Logf("paths.json: %v stages are identical; large ones are cut in the golden file", reports)
}

// totalsOfTwo is what the system starts its search from when it is one of two alike.
func totalsOfTwo(t *testing.T, doc *Document) *Totals {
	s := build(t, doc)
	comm := WholeComm(s)
	comm.NRanks *= 2
	if err := s.Init(Settings{}, comm); err != nil {
		t.Error(err)
	}
	return s.Totals()
}

func TestLinksAgreeWithNCCL(t *testing.T) {
	var all, entries score
	files := 0
	for _, dir := range goldenSystems(t) {
		doc := readGolden(t, dir)
		var golden map[string]map[string]any
		if !loadJSON(t, filepath.Join(dir, "p2p_gdr.json"), &golden) {
			continue
		}
		files++
		for variant, changed := range golden {
			want := map[string]any{}
			for k, v := range golden["default"] {
				want[k] = v
			}
			for k, v := range changed {
				want[k] = v
			}
			env := map[string]string{}
			for setting := range strings.SplitSeq(variant, ",") {
				name, value, _ := strings.Cut(setting, "=")
				env[name] = value
			}
			var peerAccess func(int, int) bool
			if env["ORACLE_NVML_P2P_OFF"] == "1" {
				peerAccess = func(int, int) bool { return false }
			}
			set := SettingsFromEnv(func(name string) string { return env[name] })
			report, err := Links(doc, BuildOptions{}, set, peerAccess)
			if _, fails := changed["error"]; fails {
				all.add(err != nil)
				if err == nil {
					t.Errorf("%s %s: no error, NCCL has %v", dir, variant, changed["message"])
				}
				continue
			}
			if err != nil {
				t.Error(err)
				continue
			}
			got := asJSON(t, report)
			entries.add(reflect.DeepEqual(got, any(want)))
			if diff := compare(&all, "", got, want); diff != "" {
				t.Errorf("%s %s: %s", dir, variant, diff)
			}
		}
	}
	t.Logf("p2p_gdr.json, %d systems, all variants: %v values agree, %v entries are identical", files, all, entries)
}
