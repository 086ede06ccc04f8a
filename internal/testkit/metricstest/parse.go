// Package metricstest reads Prometheus' text format in tests, more strictly than Prometheus: it refuses what
// node_exporter would refuse, and what internal/metrics does not list.
package metricstest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
)

// Samples are those of one or several files. The label __name__ is a sample's name, with the suffix of a summary's.
type Samples []*model.Sample

// Parse reads texts that one node_exporter would see together. All metrics must be of list.
func Parse(list []metrics.Metric, texts ...string) (all Samples, err error) {
	seen := map[model.Fingerprint]bool{}
	for _, text := range texts {
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(text))
		if err != nil {
			return nil, err
		}
		for name, family := range families {
			kind := strings.ToLower(family.GetType().String())
			if !slices.ContainsFunc(list, func(m metrics.Metric) bool { return m.Name == name && m.Kind == kind }) {
				return nil, fmt.Errorf("the %s %s is not listed", kind, name)
			}
			samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, family)
			if err != nil {
				return nil, err
			}
			for _, s := range samples {
				if seen[s.Metric.Fingerprint()] {
					return nil, fmt.Errorf("two samples of %s", s.Metric)
				}
				seen[s.Metric.Fingerprint()] = true
				for label, value := range s.Metric {
					if value == "" {
						return nil, fmt.Errorf("%s: label %s is empty", s.Metric, label)
					}
				}
			}
			all = append(all, samples...)
		}
	}
	return all, nil
}

// Of returns the samples of a metric that have all these labels, given as names and values.
func (all Samples) Of(name string, labels ...string) (some Samples) {
	for _, s := range all {
		has := s.Metric[model.MetricNameLabel] == model.LabelValue(name)
		for i := 0; i < len(labels); i += 2 {
			has = has && s.Metric[model.LabelName(labels[i])] == model.LabelValue(labels[i+1])
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
		sum += float64(s.Value)
	}
	return sum
}
