package topo

import (
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// FewerNVLinks says which GPUs have fewer NVLinks than others of their kind: links or their driver failed. Without
// NVSwitches it says so of a minority only, and nothing where bridges join pairs: not all GPUs need to have the same.
func (d *Document) FewerNVLinks() (lines []string) {
	type linked struct {
		gpu, pci *Element
		links    int
	}
	byKind := map[int][]linked{} // by compute capability
	most, switched, meshed := map[int]int{}, map[int]bool{}, map[int]bool{}
	var kinds []int
	for pci := range d.Root.All() {
		gpu := pci.Child("gpu") // the first one has the links of all parts of a split GPU
		if pci.Name != "pci" || gpu == nil {
			continue
		}
		sm, g, targets := gpu.Int("sm", 0), linked{gpu: gpu, pci: pci}, 0
		for _, l := range gpu.Children {
			if l.Name == "nvlink" {
				class, _ := l.Attr("tclass")
				g.links += l.Int("count", 0)
				targets++
				switched[sm] = switched[sm] || lookup(pciClasses, class, NodeNVS) == NodeNVS
				meshed[sm] = meshed[sm] || targets > 1
			}
		}
		if byKind[sm] == nil {
			kinds = append(kinds, sm)
		}
		byKind[sm], most[sm] = append(byKind[sm], g), max(most[sm], g.links)
	}
	for _, sm := range kinds {
		fewer := slices.DeleteFunc(slices.Clone(byKind[sm]), func(g linked) bool { return g.links == most[sm] })
		if switched[sm] || meshed[sm] && 2*len(fewer) < len(byKind[sm]) {
			for _, g := range fewer {
				dev, _ := g.gpu.Attr("dev")
				id, _ := g.pci.Attr("busid")
				lines = append(lines, fmt.Sprintf("GPU %s (%s) has %s, and others like it have %d", dev, id,
					wording.Plural(g.links, "NVLink"), most[sm]))
			}
		}
	}
	return lines
}

// Hosts counts the hosts that a document describes: more than one where NCCL wrote a whole NVLink domain.
func (d *Document) Hosts() int {
	hosts := map[string]bool{}
	for e := range d.Root.All() {
		if hash, ok := e.Attr("host_hash"); ok && e.Name == "cpu" {
			hosts[hash] = true
		}
	}
	return max(1, len(hosts))
}
