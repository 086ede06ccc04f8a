package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// shape is a communicator's number of nodes and of ranks in all, and what NCCL says of
// its NVLink domains.
type shape struct {
	nodes, ranks int
	nvl          nvlDomains
}

// maxRanks is more than any communicator has.
const maxRanks = 1 << 24

func (s shape) String() string {
	if s.ranks%s.nodes != 0 {
		return fmt.Sprintf("%d ranks on %d nodes", s.ranks, s.nodes)
	}
	return fmt.Sprintf("%dx%d", s.nodes, s.ranks/s.nodes)
}

// gridFlags choose the questions to ask.
type gridFlags struct {
	colls  []string
	sizes  string
	shapes []string
	nvl    nvlDomains
}

func (f *gridFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.colls, "coll", nil, "collectives, as allreduce,allgather (default all)")
	cmd.Flags().StringVar(&f.sizes, "sizes", "1K-4G", "sizes in bytes: a list as 64K,1M, or a range as 1K-4G, asked at every doubling and wherever a row begins or ends")
	cmd.Flags().StringSliceVar(&f.shapes, "comm", nil, "communicators as NODESxRANKS_PER_NODE, as 1x8,4x8 (default: those the policy names)")
	f.nvl.register(cmd)
}

func (f *gridFlags) parseColls() ([]nccl.Coll, error) {
	if len(f.colls) == 0 {
		return []nccl.Coll{nccl.CollAllReduce, nccl.CollAllGather, nccl.CollReduceScatter, nccl.CollBroadcast, nccl.CollReduce}, nil
	}
	var colls []nccl.Coll
	for _, name := range f.colls {
		c, err := cli.ParseColl(name)
		if err != nil {
			return nil, cli.Usagef("%w", err)
		}
		colls = append(colls, c)
	}
	return colls, nil
}

func (f *gridFlags) parseSizes() (sizes []uint64, isRange bool, err error) {
	if sizes, isRange, err = parseSizes(f.sizes); err != nil {
		err = cli.Usagef("--sizes: %w", err)
	}
	return sizes, isRange, err
}

// parseSizes returns the sizes named, and whether they are samples of a range.
func parseSizes(text string) (sizes []uint64, isRange bool, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		for s := range strings.SplitSeq(text, ",") {
			n, err := nccl.ParseBytes(strings.TrimSpace(s))
			if err != nil {
				return nil, false, err
			}
			sizes = append(sizes, n)
		}
		slices.Sort(sizes)
		return slices.Compact(sizes), false, nil
	}
	first, err := nccl.ParseBytes(strings.TrimSpace(from))
	if err != nil {
		return nil, false, err
	}
	last, err := nccl.ParseBytes(strings.TrimSpace(to))
	if err != nil {
		return nil, false, err
	}
	if first == 0 || first > last || last > 1<<50 {
		return nil, false, fmt.Errorf("%s: a range runs from 1 or more up to at most 1024T", text)
	}
	for n := first; n <= last; n *= 2 {
		sizes = append(sizes, n)
	}
	return sizes, true, nil
}

// parseShapes returns the communicators asked for, or those that files name, or two
// common ones.
func (f *gridFlags) parseShapes(named []shape) ([]shape, error) {
	var shapes []shape
	for _, text := range f.shapes {
		s, err := parseShape(text)
		if err != nil {
			return nil, err
		}
		shapes = append(shapes, s)
	}
	if len(shapes) == 0 {
		shapes = named
	}
	if len(shapes) == 0 {
		shapes = []shape{{nodes: 1, ranks: 8}, {nodes: 2, ranks: 16}}
	}
	for i := range shapes {
		var err error
		if shapes[i], err = shapes[i].spanning(f.nvl); err != nil {
			return nil, cli.Usagef("--nvl-domains: %w", err)
		}
	}
	return shapes, nil
}

// parseShape reads NODESxRANKS_PER_NODE.
func parseShape(text string) (shape, error) {
	n, perNode, ok := strings.Cut(text, "x")
	nodes, err1 := strconv.Atoi(n)
	ranks, err2 := strconv.Atoi(perNode)
	if !ok || err1 != nil || err2 != nil || nodes < 1 || ranks < 1 || nodes > maxRanks || ranks > maxRanks || nodes*ranks < 2 || nodes*ranks > maxRanks {
		meant := ""
		if parts := strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' }); len(parts) == 2 {
			meant = fmt.Sprintf("did you mean %sx%s; ", parts[0], parts[1])
			if meant == fmt.Sprintf("did you mean %s; ", text) {
				meant = ""
			}
		}
		if ranks, err := strconv.Atoi(text); err == nil && ranks >= 2 && ranks <= maxRanks {
			meant = fmt.Sprintf("%d ranks on how many nodes? one: 1x%d; ", ranks, ranks)
			if ranks > 2 && ranks%2 == 0 {
				meant = fmt.Sprintf("%d ranks on how many nodes? one: 1x%d, two: 2x%d; ", ranks, ranks, ranks/2)
			}
		}
		return shape{}, cli.Usagef("--comm %q: not NODESxRANKS_PER_NODE with at least 2 ranks (%sallowed: 1x8, 4x8)", text, meant)
	}
	return shape{nodes: nodes, ranks: nodes * ranks}, nil
}

func sizeRange(first, last uint64) string {
	if first == last {
		return nccl.FormatBytes(first)
	}
	return nccl.FormatBytes(first) + " - " + nccl.FormatBytes(last)
}
