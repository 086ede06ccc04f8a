package sweep

import (
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// A proof whose rows are not for the NCCL that runs proves nothing: that ends the sweep, in the library's own words.
func TestProofOfRowsForAnotherRelease(t *testing.T) {
	p, err := policy.ReadCSV("p.csv", []byte("collective,algorithm,nccl\nallreduce,ring,2.31\n"))
	if err != nil {
		t.Fatal(err)
	}
	comm := policy.Comm{}
	comm.Nodes, comm.Ranks = 1, 8
	said := p.For(comm).WithoutEffect()[0]
	text := "node1:7:7 [0] NCCL INFO " + record.Line(&said) + "\nrest\n"
	for _, test := range []struct {
		kind   Kind
		policy string
		want   bool
	}{{Prove, "proved-1", true}, {Prove, "", false}, {Measure, "x", false}} {
		r := &Run{kind: test.kind, of: &perfrun.Start{Passes: []perfrun.Pass{{Policy: test.policy}}}, found: &bench.Result{}}
		problem, mend := (&Sweep{}).setUp(r, 0, []byte(text))
		if got := strings.HasPrefix(problem, "the policy's rows have no effect: 1 row is for some releases of NCCL, and the "+
			"release of this one is not known"); got != test.want || got && !strings.Contains(mend, "libnccl.so") {
			t.Errorf("%+v: %q (%s)", test, problem, mend)
		}
	}
}
