package metricstest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
)

var (
	selector = regexp.MustCompile(`\b(nccl_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`^(\w+)(=|!=|=~|!~)"[^"]*"$`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right) ?\(([^)]*)\)`)
)

// CheckExpr says whether an expression of PromQL names only metrics and labels that there are, as
// far as can be told without a parser.
func CheckExpr(expr string) error {
	// Those that the library's pages have, and those of a scrape.
	labels := []string{"slurm_job_id", "node", "pid", "rank", "instance", "job"}
	if strings.Count(expr, "(") != strings.Count(expr, ")") {
		return fmt.Errorf("parentheses of %s", expr)
	}
	found := selector.FindAllStringSubmatch(expr, -1)
	if len(found) == 0 {
		return fmt.Errorf("no metric in %s", expr)
	}
	for _, s := range found {
		m, ok := named(s[1])
		if !ok {
			return fmt.Errorf("there is no metric %s: %s", s[1], expr)
		}
		own := slices.Concat(labels[:6], m.Labels)
		for _, text := range strings.Split(s[2], ",") {
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			l := matcher.FindStringSubmatch(text)
			if l == nil || !slices.Contains(own, l[1]) {
				return fmt.Errorf("%s has no such label as in %s: %s", s[1], text, expr)
			}
		}
		labels = append(labels, own...)
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for _, name := range strings.Split(g[1], ",") {
			if name = strings.TrimSpace(name); name != "" && !slices.Contains(labels, name) {
				return fmt.Errorf("no metric has the label %s: %s", name, expr)
			}
		}
	}
	return nil
}

// named finds a metric by the name of a sample.
func named(sample string) (metrics.Metric, bool) {
	for _, m := range slices.Concat(metrics.Library, metrics.Status) {
		if m.Kind == "summary" && (sample == m.Name+"_sum" || sample == m.Name+"_count") ||
			m.Kind != "summary" && sample == m.Name {
			return m, true
		}
	}
	return metrics.Metric{}, false
}
