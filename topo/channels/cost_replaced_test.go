package channels

import (
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// A constant that a tuner replaces changes what NCCL derives from it, and nothing else.
func TestReplacedConstants(t *testing.T) {
	single, multi := hgxH100Graphs(t)
	type cell struct {
		coll  nccl.Coll
		algo  nccl.Algo
		proto nccl.Proto
	}
	const tree, ring, ll, ll128, simple = nccl.AlgoTree, nccl.AlgoRing, nccl.ProtoLL, nccl.ProtoLL128, nccl.ProtoSimple
	at := func(a nccl.Algo, p nccl.Proto) [3]int { return [3]int{int(a), int(p)} }
	hop := func(wire int, a nccl.Algo, p nccl.Proto) [3]int { return [3]int{wire, int(a), int(p)} }
	all := func(algo nccl.Algo, proto nccl.Proto) (cells []cell) {
		for coll := range nccl.Coll(nccl.NumColls) {
			cells = append(cells, cell{coll, algo, proto})
		}
		return cells
	}
	allReduce := func(algo nccl.Algo, proto nccl.Proto) []cell { return []cell{{nccl.CollAllReduce, algo, proto}} }
	for name, c := range map[string]struct {
		nodes   int
		by      Constant
		latency float32 // added to those of cells; 0: their bandwidths fall
		cells   []cell
	}{
		"base latency":             {1, Constant{0, at(ring, ll), 6.6 + 10}, 10, all(ring, ll)},
		"hop over NVLink":          {1, Constant{1, hop(wireNVLink, nccl.AlgoNVLS, simple), 25 + 2}, 2, []cell{{2, nccl.AlgoNVLS, simple}, {3, nccl.AlgoNVLS, simple}, {4, nccl.AlgoNVLS, simple}}},
		"hop over the network":     {4, Constant{1, hop(wireNet, tree, ll), 5 + 3}, 2 * 2 * 3, allReduce(tree, ll)},
		"LL on one node":           {1, Constant{2, [3]int{gpuHopper, 0}, 1}, 0, append(all(ring, ll), allReduce(tree, ll)...)},
		"LL over nodes, by Intel":  {2, Constant{2, [3]int{gpuVolta, 1}, 1}, 0, append(all(ring, ll), allReduce(tree, ll)...)},
		"LL over nodes, not Intel": {2, Constant{2, [3]int{gpuHopper, 1}, 1}, 0, nil},
		"ring LL128":               {2, Constant{3, [3]int{gpuHopper, 1}, 1}, 0, all(ring, ll128)},
		"tree LL128":               {2, Constant{4, [3]int{gpuHopper, 1}, 1}, 0, allReduce(tree, ll128)},
		"tree":                     {4, Constant{5, [3]int{gpuHopper, 2}, 0.1}, 0, append(append(allReduce(tree, ll), allReduce(tree, ll128)...), allReduce(tree, simple)...)},
		"NVLSTree":                 {2, Constant{6, [3]int{gpuHopper, 1}, 1}, 0, allReduce(nccl.AlgoNVLSTree, simple)},
		"of GPUs to come":          {2, Constant{6, [3]int{numGPUClasses, 1}, 1}, 0, nil},
		"of other GPUs":            {2, Constant{6, [3]int{gpuBlackwell, 1}, 1}, 0, nil},
	} {
		graphs := multi
		if c.nodes == 1 {
			graphs = single
		}
		facts := CommFacts{NNodes: c.nodes, NRanks: 8 * c.nodes, MinLocalRanks: 8, MaxLocalRanks: 8, MinCompCap: 90, MaxCompCap: 90,
			CPUArch: topo.ArchX86, CPUVendor: topo.VendorIntel, MinNetBW: 48, NVSwitches: 1, NVLS: true, MaxTreePattern: graphs.Tree.Pattern}
		before, after := DeriveTuning(graphs, facts), DeriveTuning(graphs, facts, c.by)
		expected := map[cell]bool{}
		for _, at := range c.cells {
			expected[at] = true
		}
		changed := 0
		for coll := range nccl.Coll(nccl.NumColls) {
			for algo, proto := range nccl.Cells {
				bw := after.Bandwidths[coll][algo][proto] - before.Bandwidths[coll][algo][proto]
				lat := after.Latencies[coll][algo][proto] - before.Latencies[coll][algo][proto]
				if bw == 0 && lat == 0 {
					continue
				}
				changed++
				if right := expected[cell{coll, algo, proto}] && (c.latency > 0 && bw == 0 && near(lat, c.latency) || c.latency == 0 && lat == 0 && bw < 0); !right {
					t.Errorf("%s: %s %s/%s: latency changes by %g, bandwidth by %g", name, coll, algo, proto, lat, bw)
				}
			}
		}
		if changed != len(c.cells) {
			t.Errorf("%s: %d cells change, want %d", name, changed, len(c.cells))
		}
	}
}

func near(a, b float32) bool { return a > b*0.999 && a < b*1.001 }
