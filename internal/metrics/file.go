package metrics

import (
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
)

// FilePrefix begins the names of the library's files.
const FilePrefix = "nccl_tuner_metrics_"

// FileName is the name of a process's file. No two processes have the same, not even in two containers, which count
// their processes separately.
func FileName(p identity.Process) string {
	return FilePrefix + strings.ReplaceAll(p.Host, "/", "_") + "_" + p.Unique() + ".prom"
}

// Values reads from a file's text the samples of a metric that have a label with this value.
func Values(text string, m Metric, label, value string) (values []float64) {
	wanted := withLabel("", label, value)
	for line := range strings.Lines(text) {
		labels, ok := strings.CutPrefix(line, m.Name+"{")
		end := strings.LastIndex(labels, "} ")
		if !ok || end < 0 || !strings.Contains(","+labels[:end]+",", ","+wanted+",") {
			continue
		}
		if v, err := strconv.ParseFloat(strings.TrimSpace(labels[end+1:]), 64); err == nil {
			values = append(values, v)
		}
	}
	return values
}
