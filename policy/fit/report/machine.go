package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// fact is a line of a table of two columns.
type fact struct{ Name, Value string }

// aboutFacts are what a reader asks first.
func aboutFacts(in Input) []fact {
	p := &in.File.Provenance
	var gpus, begun []string
	for _, m := range p.Machines {
		if m.GPU != "" && !slices.Contains(gpus, m.GPU) {
			gpus = append(gpus, m.GPU)
		}
		if m.Begun != "" && !slices.Contains(begun, m.Begun) {
			begun = append(begun, m.Begun)
		}
	}
	slices.Sort(begun)
	when := "not known"
	if n := len(begun); n > 1 {
		when = begun[0] + " to " + begun[n-1]
	} else if n == 1 {
		when = begun[0]
	}
	rows := fmt.Sprint(in.Set.Used)
	facts := []fact{
		{"GPU", cmp.Or(strings.Join(gpus, ", "), "not known")},
		{"NCCL", cmp.Or(p.NCCL, "not known (--made-with VERSION)")},
		{"measured", when}, {"measurements", rows},
	}
	if !in.Date.IsZero() {
		facts = append(facts, fact{"report of", in.Date.Format("2 January 2006")})
	}
	return facts
}

// measuredFacts are what the logs told of the machines measured.
func measuredFacts(p *model.Provenance) (facts []fact) {
	for _, m := range p.Machines {
		known := []string{}
		for _, part := range []string{m.GPU, m.Hosts, m.Driver, m.Begun} {
			if part != "" {
				known = append(known, part)
			}
		}
		facts = append(facts, fact{"measured on", fmt.Sprintf("%s: %d rows", strings.Join(known, ", "), m.Rows)})
	}
	if p.Mixed {
		facts = append(facts,
			fact{"mixed machines", "yes: these are different GPUs, and the model fits none of them well"})
	}
	return facts
}

// machineFacts are what a person recognises the machine by; nil where the fit was not
// told of one.
func machineFacts(t *model.Topology) []fact {
	if t == nil {
		return nil
	}
	s := &t.Summary
	gbps := func(v float64) string { return fmt.Sprintf("%.4g GB/s", v) }
	facts := []fact{
		{"fingerprint", t.Fingerprint},
		{"GPUs", fmt.Sprintf("%d of compute capability %d.%d", s.GPUs, s.SM/10, s.SM%10)},
		{"CPUs", fmt.Sprintf("%d NUMA domains, %s", s.CPUs, s.Arch)},
		{"between GPUs", s.Intra + ", " + gbps(s.IntraBW)},
		{"NICs", fmt.Sprintf("%d of %s, together %s", s.NICs, gbps(s.NICBW), gbps(s.NetBW))},
		{"GPU to NIC", s.GPUNIC + ", " + gbps(s.GPUNICBW)},
	}
	for _, f := range []struct {
		name string
		is   bool
	}{{"NVSwitch", s.NVSwitch}, {"NVLink-C2C", s.C2C}, {"multicast", s.Multimem}, {"GPUDirect RDMA", s.GDR}} {
		value := "no"
		if f.is {
			value = "yes"
		}
		facts = append(facts, fact{f.name, value})
	}
	return facts
}
