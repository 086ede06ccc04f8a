package command

import (
	"cmp"
	"fmt"
	"io"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// pathTypeTexts explain the types of paths, best first.
var pathTypeTexts = []struct {
	t    topo.PathType
	text string
}{
	{topo.PathNVL, "NVLink, directly or through NVSwitch"},
	{topo.PathNVB, "NVLink with another GPU in between"},
	{topo.PathC2C, "chip-to-chip link of GPU and CPU"},
	{topo.PathPIX, "at most one PCIe switch"},
	{topo.PathPXB, "several PCIe switches, but no CPU"},
	{topo.PathP2C, "chip-to-chip link to the CPU, then PCIe"},
	{topo.PathPXN, "NVLink to a GPU that is close to the NIC"},
	{topo.PathPHB, "through the CPU"},
	{topo.PathSYS, "through several CPUs"},
	{topo.PathNET, "over the network"},
	{topo.PathDIS, "not connected"},
}

func (o *topoOverview) write(w io.Writer) error {
	tw := cli.NewTable(w)
	seen := map[topo.PathType]bool{}
	heading := []any{""}
	for _, name := range o.Columns {
		heading = append(heading, name)
	}
	tw.Row(append(heading, "cpu")...)
	for i, g := range o.GPUs {
		cells := []any{g.Name}
		for j, p := range o.Matrix[i] {
			cell := "X"
			if j != i {
				seen[p.Type] = true
				cell = p.Type.String()
				if p.GBps > 0 {
					cell += " " + gbps(float64(p.GBps))
				}
			}
			cells = append(cells, cell)
		}
		tw.Row(append(cells, g.CPU)...)
	}
	tw.Flush()
	fmt.Fprintln(w, "\nType and GB/s of one direction:")
	for _, k := range pathTypeTexts {
		if seen[k.t] {
			fmt.Fprintf(w, "  %s  %s\n", k.t, k.text)
		}
	}
	o.writeDevices(w)
	o.writeSummary(w)
	return nil
}

func (o *topoOverview) writeDevices(w io.Writer) {
	tw := cli.NewTable(w)
	tw.Row()
	tw.Row("GPU", "rank", "index", "capability", "PCI address", "first NIC")
	for _, g := range o.GPUs {
		tw.Row(g.Name, g.Rank, g.Dev, fmt.Sprintf("%d.%d", g.SM/10, g.SM%10), g.BusID, cmp.Or(g.NIC, "-"))
	}
	tw.Flush()
	if len(o.NICs) == 0 {
		fmt.Fprintln(w, "\nNo NIC")
		return
	}
	tw.Row()
	tw.Row("NIC", "dev", "PCI address", "port", "GB/s", "latency us", "GPUDirect RDMA", "first GPU")
	for _, n := range o.NICs {
		gdr := "no"
		if n.GDR {
			gdr = "offered"
		}
		tw.Row(n.Name, n.Dev, cmp.Or(n.BusID, "-"), n.Port, gbps(float64(n.GBps)), n.Latency, gdr, cmp.Or(n.GPU, "-"))
	}
	tw.Flush()
}

func (o *topoOverview) writeSummary(w io.Writer) {
	s := o.Summary
	fmt.Fprintf(w, "\n%s\n", s)
	tw := cli.NewTable(w)
	tw.Row("  widest ring of GPUs", gbps(s.IntraBW)+" GB/s", "narrowest pair "+gbps(s.MinPairBW)+" GB/s")
	if s.NICs > 0 {
		tw.Row("  network", gbps(s.NetBW)+" GB/s",
			fmt.Sprintf("the slowest of its ports %s GB/s; GPU to port %s, %s GB/s",
				gbps(s.NICBW), s.GPUNIC, gbps(s.GPUNICBW)))
	}
	multimem := "no: needs two or more GPUs of Hopper or later, all on NVSwitch"
	if s.Multimem {
		multimem = "possible, and NVLS too, if the driver agrees"
	}
	tw.Row("  multimem", multimem)
	tw.Row("  fingerprint", o.Fingerprint)
	tw.Flush()
}

func gbps(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
