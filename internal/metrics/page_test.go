package metrics_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/metricstest"
)

// The text is as node_exporter wants it, whatever is in a label.
func TestPage(t *testing.T) {
	p := metrics.NewPage(metrics.Library, "node", "n1", "rank", "")
	p.Add(metrics.CallsByRow, 3, "p.csv:1")
	p.Add(metrics.Info, 1, "0.1.0")
	p.Add(metrics.CallsByRow, 1<<53, "a\\b\"c\r\nd\xff\x1b.csv:2")
	p.Add(metrics.CallsByRow, 5, strings.Repeat("x/", 2000)+"p.csv:3")
	p.AddSummary(metrics.ChangeTime, 3, 7.25)
	text := string(p.Text())
	want := `# HELP nccl_tuner_info ` + metrics.Info.Help + `
# TYPE nccl_tuner_info gauge
nccl_tuner_info{node="n1",release="0.1.0"} 1
# HELP nccl_tuner_change_seconds ` + metrics.ChangeTime.Help + `
# TYPE nccl_tuner_change_seconds summary
nccl_tuner_change_seconds_sum{node="n1"} 7.25
nccl_tuner_change_seconds_count{node="n1"} 3
# HELP nccl_tuner_row_hits_total ` + metrics.CallsByRow.Help + `
# TYPE nccl_tuner_row_hits_total counter
nccl_tuner_row_hits_total{node="n1",row="p.csv:1"} 3
nccl_tuner_row_hits_total{node="n1",row="a\\b\"c\\u000d\\u000ad\\xff\\u001b.csv:2"} 9007199254740992
nccl_tuner_row_hits_total{node="n1",row="...`
	if !strings.HasPrefix(text, want) {
		t.Errorf("%s\nwant\n%s", text, want)
	}
	all, err := metricstest.Parse(metrics.Library, text)
	if err != nil {
		t.Fatal(err)
	}
	if cut := string(all.Of("nccl_tuner_row_hits_total")[2].Metric["row"]); len(cut) > 600 ||
		!strings.HasSuffix(cut, "p.csv:3") {
		t.Errorf("%q", cut)
	}
	if _, err := metricstest.Parse(metrics.Library, text, text); err == nil {
		t.Error("the same samples in two files are not found")
	}
}

// Names follow Prometheus' rules, and none is there twice.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range append(append([]metrics.Metric{}, metrics.Library...), metrics.Status...) {
		counter := strings.HasSuffix(m.Name, "_total")
		if !regexp.MustCompile(`^nccl_tuner_[a-z_]+$`).MatchString(m.Name) || seen[m.Name] ||
			counter != (m.Kind == "counter") || !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%+v", m)
		}
		seen[m.Name] = true
	}
}

// What is written can be read back, whatever other labels say.
func TestValues(t *testing.T) {
	p := metrics.NewPage(metrics.Library, "node", `n} ,comm_id="0x7"`)
	p.Add(metrics.Calls, 5, "1", "0x7", "2", "8")
	p.Add(metrics.Calls, 6, "2", "0x77", "2", "8")
	p.Add(metrics.LastCall, 1.5, "1", "0x7", "2", "8")
	text := string(p.Text())
	for _, c := range []struct {
		metric metrics.Metric
		id     string
		want   []float64
	}{
		{metrics.Calls, "0x7", []float64{5}}, {metrics.Calls, "0x77", []float64{6}},
		{metrics.LastCall, "0x7", []float64{1.5}}, {metrics.Calls, "0x8", nil}, {metrics.CallsByDecider, "0x7", nil},
	} {
		if got := metrics.Values(text, c.metric, "comm_id", c.id); !slices.Equal(got, c.want) {
			t.Errorf("%s of %s: %v, want %v", c.metric.Name, c.id, got, c.want)
		}
	}
}
