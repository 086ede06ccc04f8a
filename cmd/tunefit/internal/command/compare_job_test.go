package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// What jobs have found out, as TRIAL.md shows it.
func TestCompareJob(t *testing.T) {
	record := filepath.Join(testlib.Root, "docs/testdata/record")
	out, _ := tunefit(t, cli.ExitFailed, "compare", record)
	want := `overrides.csv (version 9f2c01d4a7be) against NCCL's default, on 16 ranks of 2 nodes, 2026-11-02 14:00 to 14:08
  step time -3.1 % (-3.6 .. -2.6): faster
  14 pairs of blocks of 16s, 291 steps of some 1.3s

overrides.csv (version 2bbe3b12c537) against overrides.csv (version 9f2c01d4a7be), on 16 ranks of 2 nodes, 2026-11-02 15:10 to 15:12
  step time +5.1 % (+4.3 .. +5.9): slower, so it was rolled back
  3 pairs of blocks of 16s, 60 steps of some 1.3s
`
	if out != want {
		t.Errorf("%s\nwant\n%s", out, want)
	}
	if out, _ := tunefit(t, cli.ExitFailed, "compare", record, "--json"); !strings.Contains(out, `"stays": "B"`) {
		t.Error(out)
	}
}

func TestCompareJobWithout(t *testing.T) {
	const running = `{"a":{"name":"p.csv"},"b":{"name":"NCCL's default"},"nodes":1,"ranks":8,"state":"running","pairs":2}`
	dir := filepath.Join(t.TempDir(), "[record]") // no pattern
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, text string
		code       int
		args, want []string
	}{
		{"", "", cli.ExitFailed, []string{dir}, []string{"no job has left a comparison here",
			"NCCL_TUNER_COMPARE=nccl"}},
		{"", "", cli.ExitFailed, []string{filepath.Join(dir, "nothing")}, []string{"nothing: no such file"}},
		{"comparison-1.json", "{", cli.ExitFailed, []string{dir},
			[]string{"comparison-1.json:1:1: unexpected end"}},
		{"comparison-1.json", "{}", cli.ExitFailed, []string{dir}, []string{"comparison-1.json: it does not name what is compared", "remove it"}},
		{"comparison-2.json", "null", cli.ExitFailed, []string{dir},
			[]string{"comparison-1.json: it does", "comparison-2.json: it does"}},
		{"comparison-2.json", running, cli.ExitFailed, []string{dir}, []string{"comparison-1.json: it does"}},
		{"comparison-1.json", running, cli.ExitFailed, []string{dir}, []string{"nothing is known yet"}},
		{"", "", cli.ExitUsage, []string{filepath.Join(dir, "comparison-1.json")},
			[]string{"1 file given", "NCCL_TUNER_RECORD"}},
		{"", "", cli.ExitFailed, []string{dir, "--restore", "x.csv"}, []string{"--restore", "measurements"}},
	} {
		if test.name != "" {
			if err := os.WriteFile(filepath.Join(dir, test.name), []byte(test.text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		_, said := tunefit(t, test.code, append([]string{"compare"}, test.args...)...)
		if m := lacks(said, test.want...); len(m) > 0 {
			t.Errorf("%q: no %q in %s", test.args, m, said)
		}
	}
}

// A directory that cannot be read is not an empty one.
func TestCompareJobUnreadable(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadDir(dir); err == nil {
		t.Skip("root reads whatever it likes")
	}
	if _, said := tunefit(t, cli.ExitFailed, "compare", dir); !strings.Contains(said, "permission denied") {
		t.Error(said)
	}
}
