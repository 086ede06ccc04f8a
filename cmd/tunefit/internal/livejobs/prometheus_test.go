package livejobs

import (
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics/metricstest"
)

// What Prometheus is told of each state.
func TestStatusForPrometheus(t *testing.T) {
	const comm, proposal = "0000000000000007-2", `{` + bb + `,"check":100,"switch":200,"slot":1}`
	c := "c/" + comm + "/"
	type sample struct {
		want   float64
		name   string
		labels []string
	}
	sampled := func(want float64, name string, labels ...string) sample {
		return sample{want, "nccl_tuner_status_" + name, labels}
	}
	for _, test := range []struct {
		name string
		more map[string]string
		want []sample
	}{
		{"idle", nil, []sample{
			sampled(1, "version_info", "comm_id", "0x7", "nranks", "2", "policy_version", "aaaaaaaaaaaa"),
			sampled(2, "ranks"), sampled(2, "ranks", "state", "unknown"), sampled(0, "change_pending"),
			sampled(0, "frozen"), sampled(0, "changes"), sampled(0, "record_errors"),
		}},
		{"pending", map[string]string{"p/" + comm + ".1": proposal, c + "a/1/1-0000000000000005": ""}, []sample{
			sampled(1, "change_pending"), sampled(1, "change_unacknowledged_ranks"),
		}},
		{"committed", map[string]string{"p/" + comm + ".1": proposal, c + "d/1.commit.201.2": ""}, []sample{
			sampled(1, "version_info", "policy_version", "bbbbbbbbbbbb"),
			sampled(1, "changes", "outcome", "committed"), sampled(1, "changes"),
		}},
		{"refused", map[string]string{"p/" + comm + ".1": proposal, c + "d/1.cannot-stage.0.1": "",
			c + "why/1": "no room"}, []sample{
			sampled(1, "changes", "outcome", "refused", "reason", "cannot stage"), sampled(1, "changes"),
		}},
		{"refused for a reason of somebody's own", map[string]string{"p/" + comm + ".1": proposal,
			c + "d/1.fun.0.1": ""}, []sample{
			sampled(1, "changes", "outcome", "refused", "reason", "other"),
		}},
		{"duplicate", map[string]string{"p/" + comm + ".1": `{"freeze":true}`}, []sample{sampled(1, "frozen")}},
		{"ending", map[string]string{c + "left/0": ""}, []sample{sampled(1, "ranks", "state", "left"),
			sampled(1, "ranks", "state", "unknown")}},
		{"damaged", map[string]string{"p/" + comm + ".1": "?"}, []sample{sampled(1, "record_errors")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := testlib.Records(t, twoRanks(comm, test.more))
			var out strings.Builder
			if err := (&View{Rendezvous: dir, Prometheus: true}).Run(&out); err != nil {
				t.Fatal(err)
			}
			all, err := metricstest.Parse(metrics.Status, out.String())
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range test.want {
				if got := all.Of(s.name, append(s.labels, "rendezvous", dir)...); len(got) == 0 || got.Sum() != s.want {
					t.Errorf("%v: %v", s, got)
				}
			}
		})
	}
}
