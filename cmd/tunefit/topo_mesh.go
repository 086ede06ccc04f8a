package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/mesh"
)

func topoMeshCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "mesh FILE",
		Short: "Show a cluster of direct cables: who reaches whom, the best ring, what it can do",
		Long: `Show a cluster without a switch, where each cable between two nodes is a subnet of its
own: which NIC reaches which peer, at what bandwidth, pairs without a cable, the best
order of the nodes for a ring, and what rings and trees can reach at most.

FILE is CSV with the columns node, nic, address (with a mask) and gbit_s.

Exit code: 0, or 1 if there is no ring of direct links.`,
		Example: `  tunefit topo mesh configs/mesh/four-nodes.csv`,
		Args:    cli.Args(1, 1, "the file of the mesh"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := cli.ReadInput(args[0], cli.KindMesh)
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
	Links    []meshLink  `json:"links"`
	Pairs    []meshPair  `json:"pairs"`
	Unlinked [][2]string `json:"unlinked,omitempty"`
	Ring     *meshRing   `json:"ring,omitempty"` // left out: there is none
	Trees    *meshTrees  `json:"trees,omitempty"`

	noRing error
}

type meshLink struct {
	From    string  `json:"from"`
	NIC     string  `json:"nic"`
	Address string  `json:"address"`
	To      string  `json:"to"`
	PeerNIC string  `json:"peer_nic"`
	Peer    string  `json:"peer_address"`
	GBps    float64 `json:"gbps"`
}

type meshPair struct {
	From string  `json:"from"`
	To   string  `json:"to"`
	GBps float64 `json:"gbps"` // of all their cables
}

type meshRing struct {
	Order         []string `json:"order"`
	GBps          float64  `json:"gbps"` // of the narrowest step
	Exact         bool     `json:"exact"`
	AllReduceGBps float64  `json:"allreduce_gbps"` // at most, buffer by time
}

type meshTrees struct {
	GBps          float64 `json:"gbps"`
	Depth         int     `json:"depth"`
	Relayed       int     `json:"relayed"` // edges without a cable of their own
	AllReduceGBps float64 `json:"allreduce_gbps"`
}

func meshOf(m *mesh.Mesh) *meshOverview {
	o := &meshOverview{}
	for a, from := range m.Nodes {
		for b, to := range m.Nodes {
			links, err := m.Links(a, b)
			if a == b || err != nil {
				continue
			}
			for _, l := range links {
				o.Links = append(o.Links, meshLink{from.Name, from.NICs[l.Local].Name, l.LocalIP.String(), to.Name,
					to.NICs[l.Remote].Name, l.RemoteIP.String(), l.GBps})
			}
			if a < b {
				o.Pairs = append(o.Pairs, meshPair{from.Name, to.Name, m.BW(a, b)})
			}
		}
	}
	for _, p := range m.Unlinked() {
		o.Unlinked = append(o.Unlinked, [2]string{m.Nodes[p[0]].Name, m.Nodes[p[1]].Name})
	}
	cost, err := m.Cost()
	if err != nil {
		o.noRing = err
		return o
	}
	o.Ring = &meshRing{GBps: cost.Ring.GBps, Exact: cost.Ring.Exact, AllReduceGBps: cost.RingAllReduce}
	for _, n := range cost.Ring.Order {
		o.Ring.Order = append(o.Ring.Order, m.Nodes[n].Name)
	}
	o.Trees = &meshTrees{cost.Trees.GBps, cost.Trees.Depth, cost.Trees.Relayed, cost.TreeAllReduce}
	return o
}

func (o *meshOverview) write(w io.Writer) error {
	tw := cli.Table(w)
	fmt.Fprintln(tw, "from\tNIC\taddress\tto\tNIC\taddress\tGB/s")
	for _, l := range o.Links {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.From, l.NIC, l.Address, l.To, l.PeerNIC, l.Peer, gbps(l.GBps))
	}
	fmt.Fprintln(tw, "\npair\tGB/s, all cables")
	for _, p := range o.Pairs {
		fmt.Fprintf(tw, "%s - %s\t%s\n", p.From, p.To, gbps(p.GBps))
	}
	for _, p := range o.Unlinked {
		fmt.Fprintf(tw, "%s - %s\tno cable\n", p[0], p[1])
	}
	if err := tw.Flush(); err != nil || o.Ring == nil {
		return err
	}
	best := "Best ring"
	if !o.Ring.Exact {
		best = "Best ring found"
	}
	fmt.Fprintf(w, "\n%s: %s at %s GB/s; AllReduce at most %s GB/s\n", best, strings.Join(o.Ring.Order, ", "), gbps(o.Ring.GBps), gbps(o.Ring.AllReduceGBps))
	fmt.Fprintf(w, "Trees in this order: depth %d, %s GB/s; AllReduce at most %s GB/s", o.Trees.Depth, gbps(o.Trees.GBps), gbps(o.Trees.AllReduceGBps))
	if o.Trees.Relayed > 0 {
		fmt.Fprintf(w, ", if the hosts relay: %d edges have no cable of their own", o.Trees.Relayed)
	}
	_, err := fmt.Fprintln(w)
	return err
}
