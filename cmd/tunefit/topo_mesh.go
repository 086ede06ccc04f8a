package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/termsafe"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/mesh"
)

func topoMeshCommand(in *cli.Inputs) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "mesh FILE",
		Short: "Show a cluster of direct cables: who reaches whom, the best ring, what it can do",
		Long: `Show a cluster without a switch, where each cable between two nodes is a subnet:
  - which NIC reaches which peer, at what bandwidth
  - pairs of nodes without a cable
  - the best order of the nodes for a ring
  - what rings and trees can reach at most

FILE is CSV with the columns node, nic, address (with a mask) and gbit_s.

Exit code: 0, or 1 if there is no ring of direct links.`,
		Example: `  tunefit topo mesh configs/mesh/four-nodes.csv`,
		Args:    cli.Args(1, 1, "the file of the mesh"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := in.Text(args[0], cli.KindMesh)
			if err != nil {
				return err
			}
			m, err := mesh.Read(args[0], bytes.NewReader(text))
			if err != nil {
				return err
			}
			o := meshOf(m)
			if asJSON {
				err = cli.WriteJSON(cmd.OutOrStdout(), o)
			} else {
				err = o.write(cmd.OutOrStdout())
			}
			return errors.Join(err, o.noRing)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// meshOverview is what `tunefit topo mesh` shows.
type meshOverview struct {
	Links    []mesh.Link `json:"links"`
	Pairs    []meshPair  `json:"pairs"`
	Unlinked [][2]string `json:"unlinked,omitempty"`
	Ring     *meshRing   `json:"ring,omitempty"` // left out: there is none
	Trees    *mesh.Trees `json:"trees,omitempty"`

	noRing error
}

type meshPair struct {
	From string  `json:"from"`
	To   string  `json:"to"`
	GBps float64 `json:"gbps"` // of all their cables
}

type meshRing struct {
	Order []string `json:"order"`
	mesh.Ring
}

func meshOf(m *mesh.Mesh) *meshOverview {
	o := &meshOverview{}
	for a, from := range m.Nodes {
		for b, to := range m.Nodes {
			links := m.Links(a, b)
			if len(links) == 0 {
				continue
			}
			o.Links = append(o.Links, links...)
			if a < b {
				o.Pairs = append(o.Pairs, meshPair{from.Name, to.Name, m.BW(a, b)})
			}
		}
	}
	for _, p := range m.Unlinked() {
		o.Unlinked = append(o.Unlinked, [2]string{m.Nodes[p[0]].Name, m.Nodes[p[1]].Name})
	}
	ring, err := m.BestRing()
	if err != nil {
		o.noRing = err
		return o
	}
	o.Ring = &meshRing{Ring: ring}
	for _, n := range ring.Order {
		o.Ring.Order = append(o.Ring.Order, m.Nodes[n].Name)
	}
	trees, err := m.Trees(ring.Order)
	if err != nil {
		o.noRing = err
		return o
	}
	o.Trees = &trees
	return o
}

func (o *meshOverview) write(w io.Writer) error {
	tw := cli.NewTable(w)
	tw.Row("from", "NIC", "address", "to", "NIC", "address", "GB/s")
	for _, l := range o.Links {
		tw.Row(l.From, l.NIC, l.Address, l.To, l.PeerNIC, l.PeerAddress, gbps(l.GBps))
	}
	tw.Row()
	tw.Row("pair", "GB/s, all cables")
	for _, p := range o.Pairs {
		tw.Row(p.From+" - "+p.To, gbps(p.GBps))
	}
	for _, p := range o.Unlinked {
		tw.Row(p[0]+" - "+p[1], "no cable")
	}
	if err := tw.Flush(); err != nil || o.Ring == nil {
		return err
	}
	best := "Best ring"
	if !o.Ring.Exact {
		best = "Best ring found"
	}
	fmt.Fprintf(w, "\n%s: %s at %s GB/s; AllReduce at most %s GB/s\n", best,
		termsafe.Line(strings.Join(o.Ring.Order, ", ")), gbps(o.Ring.GBps), gbps(o.Ring.AllReduceGBps))
	fmt.Fprintf(w, "Trees in this order: depth %d, %s GB/s; AllReduce at most %s GB/s", o.Trees.Depth,
		gbps(o.Trees.GBps), gbps(o.Trees.AllReduceGBps))
	if o.Trees.Relayed > 0 {
		fmt.Fprintf(w, ", if the hosts relay: %d edges have no cable of their own", o.Trees.Relayed)
	}
	_, err := fmt.Fprintln(w)
	return err
}
