package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/metricstest"
)

// docs/METRICS.md names every metric with its labels, and no other; the alerts beside the dashboard ask for metrics
// that there are.
func TestMetrics(t *testing.T) {
	page := pages(t)["docs/METRICS.md"]
	table := func(list []metrics.Metric, common ...string) string {
		rows := "| metric | labels | what |\n|---|---|---|\n"
		for _, m := range list {
			labels := m.Labels
			if len(labels) >= len(common) && slices.Equal(labels[:len(common)], common) {
				labels = append([]string{"*"}, labels[len(common):]...)
			}
			rows += fmt.Sprintf("| `%s` | %s | %s |\n", m.Name, strings.Join(labels, ", "), m.Help)
		}
		return rows
	}
	for _, want := range []string{table(metrics.Library, "comm", "comm_id", "n_nodes", "nranks"),
		table(metrics.Status, "rendezvous", "comm_id", "nranks")} {
		if !strings.Contains(page, "\n\n"+want+"\n") {
			t.Errorf("docs/METRICS.md should say\n%s", want)
		}
	}
	rules, err := os.ReadFile(filepath.Join(root, "configs/grafana/alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`(?m)^ +expr: (.*)$`).FindAllStringSubmatch(string(rules), -1)
	if len(alerts) < 3 {
		t.Errorf("%d alerts", len(alerts))
	}
	for _, a := range alerts {
		if err := metricstest.CheckExpr(a[1]); err != nil {
			t.Error(err)
		}
	}
}
