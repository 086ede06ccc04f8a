package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// A directory of NCCL_TUNER_RECORD that would stay empty is told before the job has run.
func TestRecordDirectory(t *testing.T) {
	dir, file := t.TempDir(), testlib.File(t, "file", "")
	for _, c := range []struct {
		env   []string
		want  severity
		words []string
	}{
		{[]string{"NCCL_TUNER_RECORD=" + dir, "NCCL_PROFILER_PLUGIN=" + file}, isFine,
			[]string{dir, "can be written to"}},
		{[]string{"NCCL_TUNER_RECORD=" + dir + "/a/b", "NCCL_TUNER_COMPARE=nccl"}, isFine, []string{"the job makes "}},
		{[]string{"NCCL_TUNER_RECORD=" + dir}, isWarning, []string{"stays empty", "NCCL_PROFILER_PLUGIN is not set",
			"NCCL_TUNER_COMPARE"}},
		{[]string{"NCCL_TUNER_RECORD=" + dir, "NCCL_PROFILER_PLUGIN=" + dir + "/none.so"}, isWarning,
			[]string{"none.so: no such file", "not recorded"}},
		{[]string{"NCCL_TUNER_RECORD=" + file}, isWarning, []string{"nothing is kept there", "it is not a directory"}},
		{[]string{"NCCL_TUNER_RECORD=" + filepath.Join(file, "below")}, isWarning,
			[]string{"nothing is kept there", "not a directory"}},
		{[]string{"NCCL_TUNER_RECORD=/proc/none"}, isWarning, []string{"nothing is kept there: /proc: "}},
		{[]string{"NCCL_TUNER_RECORD=here"}, isWarning, []string{"depends on the folder"}},
	} {
		t.Log(c.env)
		mustFind(t, testDoctor(t, c.env...).examine(t.Context(), only("record")), "record", c.want, c.words...)
	}
	if found := testDoctor(t).examine(t.Context(), only("record")); len(found) > 0 {
		t.Errorf("without the variable: %v", found)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
