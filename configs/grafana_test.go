package configs

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/metricstest"
)

// The dashboard asks for metrics and labels that there are.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("grafana/nccl-tuner.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	taken := map[[2]int]string{}
	for _, p := range board.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			if err := metricstest.CheckExpr(target.Expr); err != nil {
				t.Errorf("%s: %v", p.Title, err)
			}
			if label := strings.Trim(target.LegendFormat, "{}"); label != target.LegendFormat &&
				!strings.Contains(target.Expr, "("+label+")") {
				t.Errorf("%s: the legend is %s", p.Title, target.LegendFormat)
			}
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s and %s lie in the same place", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	for _, v := range board.Templating.List {
		if v.Definition != "" {
			if err := metricstest.CheckExpr(v.Definition); err != nil {
				t.Errorf("%s: %v", v.Name, err)
			}
		}
	}
}

// CheckExpr refuses what Prometheus would answer with nothing.
func TestCheckExpr(t *testing.T) {
	for _, bad := range []string{
		"rate(nccl_tuner_call_total[5m])", `nccl_tuner_hits_total{decidedby="row"}`,
		"sum by (reasons) (nccl_tuner_silent)",
		"sum(nccl_tuner_silent", "nccl_tuner_change_seconds", "up",
	} {
		if metricstest.CheckExpr(bad) == nil {
			t.Error(bad)
		}
	}
}
