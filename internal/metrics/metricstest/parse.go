// Package metricstest reads Prometheus' text format for tests, more strictly than Prometheus:
// what node_exporter would refuse, and what internal/metrics does not list.
package metricstest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
)

// Sample is one sample; its labels include none that is empty.
type Sample struct {
	Name   string // with the suffix of a histogram's
	Labels map[string]string
	Value  float64
}

// Samples are those of one or several files.
type Samples []Sample

var (
	line  = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)
	label = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)`)
)

// Parse reads texts that one node_exporter would see together. All metrics must be of list.
func Parse(list []metrics.Metric, texts ...string) (all Samples, err error) {
	seen := map[string]bool{}
	for _, text := range texts {
		if !strings.HasSuffix(text, "\n") {
			return nil, fmt.Errorf("the last line has no end: %q", text)
		}
		current, closed := "", map[string]bool{}
		for n, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			fail := func(why string, args ...any) (Samples, error) {
				return nil, fmt.Errorf("line %d: %s: %s", n+1, fmt.Sprintf(why, args...), l)
			}
			if words := strings.SplitN(l, " ", 4); words[0] == "#" {
				if len(words) < 4 || words[1] != "TYPE" && words[1] != "HELP" {
					continue
				}
				m := slices.IndexFunc(list, func(m metrics.Metric) bool { return m.Name == words[2] })
				if m < 0 || words[1] == "TYPE" && words[3] != list[m].Kind {
					return fail("not of the list")
				}
				if words[2] != current {
					if closed[words[2]] {
						return fail("the metric was told before")
					}
					closed[current], current = true, words[2]
				}
				continue
			}
			parts := line.FindStringSubmatch(l)
			if parts == nil {
				return fail("no sample")
			}
			base := parts[1]
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if strings.TrimSuffix(base, suffix) == current {
					base = current
				}
			}
			if base != current {
				return fail("below the head of %q", current)
			}
			s := Sample{Name: parts[1], Labels: map[string]string{}}
			for rest := parts[2]; rest != ""; {
				l := label.FindStringSubmatch(rest)
				if l == nil {
					return fail("no label at %q", rest)
				}
				if _, twice := s.Labels[l[1]]; twice || l[2] == "" {
					return fail("label %s twice or empty", l[1])
				}
				s.Labels[l[1]] = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(l[2])
				rest = rest[len(l[0]):]
			}
			if s.Value, err = strconv.ParseFloat(parts[3], 64); err != nil {
				return fail("no number")
			}
			key := fmt.Sprint(s.Name, s.Labels)
			if seen[key] {
				return fail("there are two of these")
			}
			seen[key] = true
			all = append(all, s)
		}
	}
	return all, nil
}

// Of returns the samples of a metric that have all these labels, given as names and values.
func (all Samples) Of(name string, labels ...string) (some Samples) {
	for _, s := range all {
		has := s.Name == name
		for i := 0; i < len(labels); i += 2 {
			has = has && s.Labels[labels[i]] == labels[i+1]
		}
		if has {
			some = append(some, s)
		}
	}
	return some
}

// Sum adds their values up.
func (all Samples) Sum() (sum float64) {
	for _, s := range all {
		sum += s.Value
	}
	return sum
}
