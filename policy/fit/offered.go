package fit

import (
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// unoffered returns what was measured of a group although NCCL does not offer it, and what failed or is not offered.
// It is known by our library's logs, where the family failed whatever its channels, by Offers, and by the GPU.
// What NCCL chose itself it offers.
func (p *Pool) unoffered(s *Set, key Key, g map[variant][]*reading) (measured []nccl.Cell, failed []nccl.Config) {
	chosen, cells := map[nccl.Cell]bool{}, map[nccl.Cell]bool{}
	for _, all := range g {
		for _, r := range all {
			if cells[r.Cell] = true; r.byDefault() {
				chosen[r.Cell] = true
			}
		}
	}
	failed = slices.Clone(p.failed[key])
	noLL128 := key.Ranks > key.Nodes && len(s.Machines) > 0 && !slices.ContainsFunc(s.Machines, mayHaveNVLink)
	for algo, proto := range nccl.Cells {
		cell := nccl.Cell{Algo: algo, Proto: proto}
		known := slices.Contains(failed, nccl.Config{Cell: cell})
		isNot := known || noLL128 && proto == nccl.ProtoLL128 ||
			cells[cell] && p.Offers != nil && !p.Offers(key, cell, s.NCCL)
		if chosen[cell] || !isNot {
			continue
		}
		if cells[cell] {
			measured = append(measured, cell)
		}
		if !known {
			failed = append(failed, nccl.Config{Cell: cell})
		}
	}
	return measured, failed
}

// noNVLink are GPUs without NVLink, by their vendor's data sheets. Between them NCCL does not offer LL128.
var noNVLink = []string{"A2", "A10", "A10G", "A16", "L2", "L4", "L20", "L40", "L40S", "T4", "RTX 4070", "RTX 4080",
	"RTX 4090", "RTX 5070", "RTX 5080", "RTX 5090", "RTX 4000 Ada", "RTX 4500 Ada", "RTX 5000 Ada", "RTX 6000 Ada",
	"RTX PRO 4500 Blackwell", "RTX PRO 5000 Blackwell", "RTX PRO 6000 Blackwell"}

// mayHaveNVLink reports whether the GPU is not known to lack NVLink. Drivers name it "NVIDIA L4", or "Tesla T4".
func mayHaveNVLink(m model.MeasuredOn) bool {
	for gpu := range strings.SplitSeq(m.GPU, " + ") {
		for _, before := range []string{"NVIDIA ", "Tesla ", "GeForce "} {
			gpu = strings.TrimPrefix(gpu, before)
		}
		if !slices.ContainsFunc(noNVLink, func(name string) bool {
			return gpu == name || strings.HasPrefix(gpu, name+" ")
		}) {
			return true
		}
	}
	return false
}
