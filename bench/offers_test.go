package bench

import (
	"strings"
	"testing"
)

// What our library says is available in NCCL tells what is not, unless variables changed that.
func TestNotOffered(t *testing.T) {
	const says = "host:1:1 [0] NCCL INFO TUNER/Go: available coll=allreduce cells=\"tree/ll tree/simple ring/ll ring/simple\"\n"
	const decided = "host:1:1 [0] NCCL INFO TUNER/Go: decision coll=allreduce size=1MiB choice=ring/ll by=x.csv:1 pipe_ops=1\n"
	for name, test := range map[string]struct {
		tuner string
		want  string
	}{
		"nothing": {decided, ""},
		"once": {says + decided,
			"tree/ll128 ring/ll128 collnet_direct/simple collnet_chain/simple nvls/simple nvls_tree/simple"},
		"an earlier release": {"TUNER/Go: NCCL offers for allreduce: tree/ll, tree/simple, ring/ll, ring/simple\n" + decided,
			"tree/ll128 ring/ll128 collnet_direct/simple collnet_chain/simple nvls/simple nvls_tree/simple"},
		"more for a call": {says + strings.ReplaceAll(says, "tree/ll ", "tree/ll128 nvls/simple ") + decided,
			"ring/ll128 collnet_direct/simple collnet_chain/simple nvls_tree/simple"},
		"forced": {"NCCL INFO NCCL_PROTO set by environment to LL\n" + says + decided, ""},
		"links": {"host:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct\n" + decided,
			"ring/ll128 ring/ll128 ring/ll128 ring/ll128 tree/ll128 ring/ll128"},
		"links of RCCL": {"host:1:1 [0] NCCL INFO RCCL version : 2.27.7-HEAD:1\n" +
			"host:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct comm 0x1 nRanks 16\n" + decided, ""},
		"links and forced": {"host:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct\n" +
			"NCCL INFO NCCL_PROTO set by environment to LL\n" + says + decided,
			"ring/ll128 ring/ll128 ring/ll128 ring/ll128 tree/ll128 ring/ll128"},
		"other links": {"host:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n" + decided, ""},
		"cut":         {"host:1:1 [0] NCCL INFO TUNER/Go: available coll=allreduce cells=\"tree/ll ri\n" + decided, ""},
		"not ours":    {strings.ReplaceAll(says, "allreduce", "allrodeo") + decided, ""},
	} {
		r := planned(t, "measure ring/ll", test.tuner)
		var got []string
		for _, s := range r.NotOffered {
			got = append(got, s.Cell.String())
			if s.Nodes != 2 || s.Ranks != 16 || s.Bytes != 0 || s.Channels != 0 || s.Micros != 0 {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if strings.Join(got, " ") != test.want || len(r.Failed) > 0 {
			t.Errorf("%s: not available are %q, want %q; failed are %+v", name, got, test.want, r.Failed)
		}
	}
}
