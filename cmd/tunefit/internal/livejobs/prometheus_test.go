package livejobs

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/metricstest"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
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
		{"compares", map[string]string{c + "note/1": `{"nodes":1,"ranks":2,"a":{"name":"a"},"b":{"name":"b"},"state":"running"}`},
			[]sample{sampled(1, "comparing", "comm_id", "0x7")}},
		{"has compared", map[string]string{c + "note/1": `{"nodes":1,"ranks":2,"a":{"name":"a"},"b":{"name":"b"},"state":"precise"}`}, []sample{sampled(0, "comparing")}},
		{"is to compare", nil, []sample{sampled(0, "comparing")}},
		{"damaged", map[string]string{"p/" + comm + ".1": "?"}, []sample{sampled(1, "record_errors")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			records := twoRanks(comm, test.more)
			if strings.Contains(test.name, "compare") {
				records[c+"slot/0"] += " rank=0 " + tuner.EnvCompare
			}
			dir := testlib.Records(t, records)
			var out strings.Builder
			if err := (&View{Rendezvous: dir, Prometheus: true}).Run(&out); err != nil {
				t.Fatal(err)
			}
			all, err := metricstest.Parse(metrics.Status, out.String())
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(test.name, "compare") && len(all.Of("nccl_tuner_status_comparing")) > 0 {
				t.Error("nobody has asked for a comparison")
			}
			if unseen := all.Of("nccl_tuner_status_unseen"); len(unseen) != 1 || unseen.Sum() != 0 {
				t.Errorf("%v", unseen)
			}
			for _, s := range test.want {
				if got := all.Of(s.name, append(s.labels, "rendezvous", dir)...); len(got) == 0 || got.Sum() != s.want {
					t.Errorf("%v: %v", s, got)
				}
			}
		})
	}
}

// What could not be looked at is counted: the list is no proof that all is well.
func TestUnseenForPrometheus(t *testing.T) {
	dir := testlib.Records(t, twoRanks("0000000000000007-2", nil))
	if err := os.MkdirAll(filepath.Join(dir, "4711\n"), 0o700); err != nil { // not looked into, by its name
		t.Fatal(err)
	}
	var out strings.Builder
	if err := (&View{Rendezvous: dir, Prometheus: true, Warnings: io.Discard}).Run(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\nnccl_tuner_status_unseen 1\n") {
		t.Error(out.String())
	}
}
