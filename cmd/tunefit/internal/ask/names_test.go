package ask_test

import (
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// Rows for releases and names decide where --nccl and --comm-name say so, and notes say which do not.
func TestReleasesAndNames(t *testing.T) {
	rows := testlib.File(t, "p.csv", "collective,algorithm,protocol,nccl,comm_name\n"+
		"allreduce,nvls,simple,2.28,\nallreduce,ring,ll128,>=2.30,dp*\nallreduce,tree,simple,,tp\n")
	const otherRelease = "note: 1 row is for other releases of NCCL, and this is "
	for _, c := range []struct {
		args []string
		row  string
		note string
	}{
		{[]string{"--nccl", "2.28.9", "--comm-name", "dp:0"}, "p.csv:2", otherRelease + "2.28.9"},
		{[]string{"--nccl", "2.30.7", "--comm-name", "dp:0"}, "p.csv:3", otherRelease + "2.30.7"},
		{[]string{"--nccl", "2.29.7", "--comm-name", "tp"}, "p.csv:4", "note: 2 rows are for other releases of NCCL"},
		{[]string{"--nccl", "2.30.7"}, "NCCL", "note: 2 rows ask for the communicator's name, which is not known"},
	} {
		for _, command := range [][]string{{"show", rows, "--comm", "1x8", "--coll", "allreduce", "--sizes", "4K"},
			{"explain", "allreduce", "4K", "--comm", "1x8", "--policy", rows}} {
			out, notes := tunefit(t, cli.ExitOK, append(command, c.args...)...)
			want := c.row
			if command[0] == "explain" && c.row == "NCCL" {
				want = "no row decides"
			}
			if !strings.Contains(out, want) || !strings.Contains(notes, c.note) {
				t.Errorf("%s %s: %q is missing in\n%s\nor %q in\n%s", command[0], c.args, want, out, c.note, notes)
			}
		}
	}
	tests := testlib.File(t, "p_test.yaml", "policy: "+rows+"\nnccl: 2.30.7\ntests:\n  - name: dp\n    collective: allreduce\n"+
		"    nodes: 1\n    ranks: 8\n    size: 4K\n    comm_name: dp\n    expect: {row: 3}\n  - name: others\n"+
		"    collective: allreduce\n    nodes: 1\n    ranks: 8\n    size: 4K\n    expect: {decided_by: nccl}\n")
	tunefit(t, cli.ExitOK, "check", rows, "--tests", tests)
}
