package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
)

// An NCCL_ALGO for some collectives and an NCCL_PROTO for all fail the others, from NCCL 2.31 on. Each way out that is
// offered is sound.
func TestDoctorChoices(t *testing.T) {
	dir := t.TempDir()
	errors := func(code int, conf string, environ ...string) []Finding {
		d := testDoctor(t)
		file := filepath.Join(t.TempDir(), "nccl.conf")
		if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
			t.Fatal(err)
		}
		d.env = localenv.ReadEnvironment(environ, "", file)
		d.NCCL = gcc(t, filepath.Join(dir, fmt.Sprint(code), localenv.LibNCCL),
			fmt.Sprintf("int ncclGetVersion(int *v) { *v = %d; return 0; }", code))
		return slices.DeleteFunc(d.examine(t.Context(), only("nccl")),
			func(f Finding) bool { return f.Severity < isError })
	}
	const algo, proto = "NCCL_ALGO=allreduce:tree", "NCCL_PROTO=Simple"
	words := []string{"NCCL_ALGO=allreduce:tree", "NCCL_PROTO=Simple", "error 5",
		"Broadcast, Reduce, AllGather, ReduceScatter no algorithm", "unset one of both",
		"NCCL_ALGO='ring;allreduce:tree'", "NCCL_PROTO='allreduce:Simple'"}
	mustFind(t, errors(23102, "", algo, proto), "nccl", isError, words...)
	mustFind(t, errors(23102, algo+"\n"+proto+"\n"), "nccl", isError, append(words, "nccl.conf:1)", "nccl.conf:2)")...)
	mustFind(t, errors(23102, "", "NCCL_ALGO=allreduce:tree;reduce:ring", proto), "nccl", isError,
		"leaves Broadcast, AllGather, ReduceScatter no", "NCCL_PROTO='reduce:Simple;allreduce:Simple'")
	mustFind(t, errors(23102, "", algo, "NCCL_PROTO=^LL;reduce:Simple"), "nccl", isError, "only collectives that")
	mustFind(t, errors(23102, "", "NCCL_ALGO=rign"), "nccl", isError, `NCCL_ALGO=rign: unknown word "rign"`, "correct")
	for _, sound := range [][]string{{algo}, {proto}, {"NCCL_ALGO=ring;allreduce:tree", proto},
		{algo, "NCCL_PROTO=allreduce:Simple"}, {"NCCL_ALGO=tree", proto}} {
		if found := errors(23102, "", sound...); len(found) > 0 {
			t.Errorf("%v: %v", sound, found)
		}
	}
	// Line ends of Windows are part of the value until 2.30.3.
	const windows = "NCCL_ALGO=Tree\r\nNCCL_DEBUG=WARN\r\n"
	mustFind(t, errors(22902, windows), "nccl", isError, "nccl.conf:1 make NCCL_ALGO \"Tree\\r\"", "NCCL 2.29.2 does not start", "sed -i")
	if found := errors(23003, windows); len(found) > 0 {
		t.Errorf("NCCL 2.30.3: %v", found)
	}
	if found := errors(23007, "", algo, proto); len(found) > 0 {
		t.Errorf("NCCL 2.30.7: %v", found)
	}

	// Where there is no NCCL, the newest is what a job may have.
	if localenv.InstalledNCCL() != 0 {
		t.Skip("SKIPPED: this machine has NCCL")
	}
	mustFind(t, testDoctor(t, algo, proto).examine(t.Context(), only("nccl")), "nccl", isWarning,
		"if the job's NCCL is 2.31.2: NCCL_ALGO=allreduce:tree", "error 5")
	mustFind(t, testDoctor(t, "NCCL_ALGO=rign").examine(t.Context(), only("nccl")), "nccl", isWarning,
		`unknown word "rign"`)
}
