package report

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// fact is a line of a table of two columns.
type fact struct{ Name, Value string }

// machineFacts are what a person needs to know the machine again; nil where the
// fit was not told of one.
func machineFacts(t *policy.ModelTopology) []fact {
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
