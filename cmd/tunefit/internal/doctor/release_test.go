package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// What a release does wrong with a policy is told where the policy asks for it.
func TestDoctorReleaseFaults(t *testing.T) {
	dir := t.TempDir()
	const preview, crash = "preview", "unchecked"
	for i, c := range []struct {
		code int
		rows string
		want string // "": nothing
	}{
		{23100, "allgather,0,inf,ring,ll,-1,-1,-1\n", preview},
		{23100, "any,0,inf,-1,!simple,-1,-1,-1\n", preview},
		{23102, "allgather,0,inf,ring,ll,8,-1,-1\n", ""},
		{23007, "allgather,0,inf,ring,ll,8,-1,-1\n", crash}, {22902, "any,0,inf,-1,-1,8,-1,-1\n", crash},
		{23007, "allgather,0,inf,ring,ll,-1,-1,-1\nallreduce,0,inf,ring,ll,8,-1,-1\n", ""},
		{22809, "allgather,0,inf,ring,ll,8,-1,-1\n", ""},
	} {
		d := testDoctor(t, tuner.EnvPlugin+"="+testlib.Library, tuner.EnvConfigFile+"="+testlib.File(t, "p.csv", c.rows))
		d.NCCL = gcc(t, filepath.Join(dir, fmt.Sprint(i), localenv.LibNCCL),
			fmt.Sprintf("int ncclGetVersion(int *v) { *v = %d; return 0; }", c.code))
		found := d.examine(t.Context(), only("nccl"))
		for _, word := range []string{preview, crash} {
			said := slices.ContainsFunc(found, func(f Finding) bool { return strings.Contains(fmt.Sprint(f), word) })
			if said != (word == c.want) {
				t.Errorf("NCCL %d with\n%s%s: %v in %v", c.code, c.rows, word, said, found)
			}
		}
	}
}
