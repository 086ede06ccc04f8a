package metrics

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Page collects samples and writes them as Prometheus' text format wants them: all samples of a
// metric together, below what it is. Two samples of a metric must differ in a label.
type Page struct {
	order   []Metric
	common  string                   // labels of all samples
	samples map[string]*bytes.Buffer // lines, by the metric's name
}

// NewPage takes the metrics in the order that they are written in, and names and values of labels
// that all samples have.
func NewPage(order []Metric, common ...string) *Page {
	p := &Page{order: order, samples: map[string]*bytes.Buffer{}}
	for i := 0; i < len(common); i += 2 {
		p.common = withLabel(p.common, common[i], common[i+1])
	}
	return p
}

// Add adds a sample. The values are those of m.Labels, in their order. A label without a value is
// left out, which means the same to Prometheus.
func (p *Page) Add(m Metric, value float64, values ...string) {
	p.add(m, "", value, p.labels(m, values))
}

// AddIf adds a sample that is 1 if something holds, else 0.
func (p *Page) AddIf(m Metric, holds bool, values ...string) {
	value := 0.
	if holds {
		value = 1
	}
	p.Add(m, value, values...)
}

// AddSummary adds the samples of a summary: the sum of what was observed, and how often.
func (p *Page) AddSummary(m Metric, count uint64, sum float64, values ...string) {
	labels := p.labels(m, values)
	p.add(m, "_sum", sum, labels)
	p.add(m, "_count", float64(count), labels)
}

func (p *Page) labels(m Metric, values []string) string {
	if len(values) != len(m.Labels) {
		panic(fmt.Sprintf("%d labels for %s", len(values), m.Name))
	}
	labels := p.common
	for i, value := range values {
		labels = withLabel(labels, m.Labels[i], value)
	}
	return labels
}

func (p *Page) add(m Metric, suffix string, value float64, labels string) {
	lines := p.samples[m.Name]
	if lines == nil {
		lines = &bytes.Buffer{}
		p.samples[m.Name] = lines
	}
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(lines, "%s%s%s %s\n", m.Name, suffix, labels, format(value))
}

// Text is the page as a scraper reads it.
func (p *Page) Text() []byte {
	var text bytes.Buffer
	for _, m := range p.order {
		if lines := p.samples[m.Name]; lines != nil {
			fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s %s\n", m.Name, m.Help, m.Name, m.Kind)
			text.Write(lines.Bytes())
		}
	}
	return text.Bytes()
}

// format writes whole numbers in full, for people; a float64 holds counts up to 2^53.
func format(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// maxLabel bounds a label's value, because a file's name may be long. The end stays, which tells
// the rows of a file apart.
const maxLabel = 512

func withLabel(labels, name, value string) string {
	if value == "" {
		return labels
	}
	if len(value) > maxLabel {
		value = "..." + value[len(value)-maxLabel:]
	}
	if labels != "" {
		labels += ","
	}
	return labels + name + `="` + escaper.Replace(wording.Line(value)) + `"`
}
