package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
)

// A row that may not be for a communicator does not match it, and the view says why.
func TestIdle(t *testing.T) {
	p := rowsOf(t, "collective,algorithm,nccl,comm_name,when\n"+
		"allreduce,ring,2.28,,\nallreduce,ring,>=2.31.2,,\nallreduce,ring,,dp*,\n"+
		"allreduce,ring,,,\"nccl >= \"\"2.30\"\"\"\nallreduce,ring,,,comm_name == 'tp'\nallreduce,ring,,,topo.gpus > 0\n"+
		"allreduce,tree,,,\n")
	if !p.AsksRelease() || !p.AsksName() || !p.NeedsTopology() {
		t.Error("it asks for the release, a name and the machine")
	}
	if p := rowsOf(t, "allreduce,0,1024,ring,ll,8,-1,-1\n"); p.AsksRelease() || p.AsksName() {
		t.Error("it asks for nothing")
	}
	const machine = "1 row is for this communicator by the machine's topology, which is not known: without effect"
	for _, c := range []struct {
		nccl, name string
		line       int // of the row that decides
		want       []string
	}{
		{"2.28.9", "dp:0", 2, []string{machine,
			"1 row is for other releases of NCCL, and this is 2.28.9: without effect"}},
		{"2.31.2", "x", 3, []string{machine,
			"1 row is for other releases of NCCL, and this is 2.31.2: without effect"}},
		{"2.31-2.32.5", "", 8, []string{machine,
			"2 rows are for some releases of NCCL, and this is 2.31-2.32.5, of which not all are among them: without effect",
			"1 row is for other releases of NCCL, and this is 2.31-2.32.5: without effect",
			"2 rows ask for the communicator's name, which is not known (all ranks need one name, see docs/POLICY.md): without effect"}},
		{"", "tp", 6, []string{machine,
			"3 rows are for some releases of NCCL, and the release of this one is not known, of which not all are among them: without effect"}},
	} {
		comm := Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8}, Name: c.name}
		if c.nccl != "" {
			comm.NCCL = release(c.nccl)
		}
		v := p.For(comm)
		d := v.Decide(Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 9}, Costs: ringAndTree})
		if line := p.Rules[d.Rule].Line; line != c.line {
			t.Errorf("NCCL %q, name %q: line %d decides, want %d", c.nccl, c.name, line, c.line)
		}
		var got []string
		for _, n := range v.WithoutEffect() {
			got = append(got, n.Is)
			if (n.Why == record.NoEffectRelease) != strings.Contains(n.Is, "releases of NCCL") {
				t.Errorf("%s: %s", n.Why, n.Is)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("NCCL %q, name %q: %q", c.nccl, c.name, got)
		}
	}
}
