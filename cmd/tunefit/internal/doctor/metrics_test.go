package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

func TestMetricsDirectory(t *testing.T) {
	good, shut := t.TempDir(), t.TempDir()
	if err := os.Chmod(good, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shut, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dir, says string }{
		{"", ""},
		{good, "can be written to"},
		{shut, "not everybody can read"},
		{filepath.Join(good, "missing"), "metrics cannot be written: no such file or directory"},
		{testlib.File(t, "file", ""), "metrics cannot be written: it is not a directory"},
		{"/proc", "metrics cannot be written: "},
		{".", "depends on the folder"},
	} {
		t.Setenv(tuner.EnvMetrics, c.dir)
		var said []string
		for _, f := range onThisMachine(Options{Limit: LimitOnNodes}).examine(t.Context(), only("metrics")) {
			said = append(said, f.Found)
		}
		if text := strings.Join(said, "\n"); !strings.Contains(text, c.says) || c.says == "" && text != "" {
			t.Errorf("%s: %s", c.dir, text)
		}
	}
	if left, _ := os.ReadDir(good); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
