package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// shape is a communicator's number of nodes and of ranks in all.
type shape struct{ nodes, ranks int }

func (s shape) String() string { return fmt.Sprintf("%dx%d", s.nodes, s.ranks/s.nodes) }

// gridFlags choose the questions to ask.
type gridFlags struct {
	colls  []string
	sizes  string
	shapes []string
}

func (f *gridFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.colls, "coll", nil, "collectives, as allreduce,allgather (default all)")
	cmd.Flags().StringVar(&f.sizes, "sizes", "1K-4G", "sizes in bytes: a list as 64K,1M or a range as 1K-4G, which is doubled from its start")
	cmd.Flags().StringSliceVar(&f.shapes, "comm", nil, "communicators as NODESxRANKS_PER_NODE, as 1x8,4x8 (default: those the policy names)")
}

func (f *gridFlags) parseColls() ([]policy.Coll, error) {
	if len(f.colls) == 0 {
		return []policy.Coll{policy.CollAllReduce, policy.CollAllGather, policy.CollReduceScatter, policy.CollBroadcast, policy.CollReduce}, nil
	}
	var colls []policy.Coll
	for _, name := range f.colls {
		c, err := policy.ParseColl(name)
		if err != nil {
			return nil, usageError{err}
		}
		colls = append(colls, c)
	}
	return colls, nil
}

func (f *gridFlags) parseSizes() ([]uint64, error) {
	from, to, isRange := strings.Cut(f.sizes, "-")
	if !isRange {
		var sizes []uint64
		for s := range strings.SplitSeq(f.sizes, ",") {
			n, err := policy.ParseBytes(strings.TrimSpace(s))
			if err != nil {
				return nil, usagef("--sizes: %w", err)
			}
			sizes = append(sizes, n)
		}
		slices.Sort(sizes)
		return slices.Compact(sizes), nil
	}
	first, err := policy.ParseBytes(from)
	if err != nil {
		return nil, usagef("--sizes: %w", err)
	}
	last, err := policy.ParseBytes(to)
	if err != nil {
		return nil, usagef("--sizes: %w", err)
	}
	if first == 0 || first > last || last > 1<<50 {
		return nil, usagef("--sizes %s: a range runs from 1 or more up to at most 1024T", f.sizes)
	}
	var sizes []uint64
	for n := first; n <= last; n *= 2 {
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// parseShapes returns the communicators asked for, or those that the policies
// name, or two common ones.
func (f *gridFlags) parseShapes(policies ...*policy.Policy) ([]shape, error) {
	var shapes []shape
	for _, text := range f.shapes {
		n, perNode, ok := strings.Cut(text, "x")
		nodes, err1 := strconv.Atoi(n)
		ranks, err2 := strconv.Atoi(perNode)
		if !ok || err1 != nil || err2 != nil || nodes < 1 || ranks < 1 || nodes*ranks < 2 || nodes*ranks > 1<<24 {
			return nil, usagef("--comm %q: not NODESxRANKS_PER_NODE with at least 2 ranks (allowed: 1x8, 4x8)", text)
		}
		shapes = append(shapes, shape{nodes, nodes * ranks})
	}
	if len(shapes) == 0 {
		shapes = namedShapes(policies)
	}
	if len(shapes) == 0 {
		shapes = []shape{{1, 8}, {2, 16}}
	}
	return shapes, nil
}

// namedShapes lists the communicators that rules are written for. What a rule
// leaves open is filled in with 8 ranks per node.
func namedShapes(policies []*policy.Policy) []shape {
	const perNode = 8
	seen := map[shape]bool{}
	for _, p := range policies {
		for _, r := range p.Rules {
			nodes, ranks, rpn := int(r.Nodes), int(r.Ranks), int(r.RanksPerNode)
			if nodes < 0 && ranks < 0 && rpn < 0 {
				continue
			}
			if rpn < 0 {
				rpn = perNode
				if nodes > 0 && ranks > 0 && ranks%nodes == 0 {
					rpn = ranks / nodes
				} else if ranks > 0 && ranks < perNode {
					rpn = ranks
				}
			}
			if nodes < 0 {
				nodes = max(1, ranks/rpn)
			}
			if s := (shape{nodes, nodes * rpn}); s.ranks > 1 && (ranks < 0 || ranks == s.ranks) {
				seen[s] = true
			}
		}
	}
	var shapes []shape
	for s := range seen {
		shapes = append(shapes, s)
	}
	slices.SortFunc(shapes, func(a, b shape) int { return cmp.Or(cmp.Compare(a.nodes, b.nodes), cmp.Compare(a.ranks, b.ranks)) })
	return shapes
}

// edges adds the sizes at which a rule begins or ends, and their neighbours, so
// that no rule can hide between two sizes of the grid.
func edges(sizes []uint64, ranks int, policies ...*policy.Policy) []uint64 {
	const largest = 1 << 50 // no collective is larger than this
	add := func(n uint64) {
		if n > 0 && n < largest {
			sizes = append(sizes, n)
		}
	}
	for _, p := range policies {
		for _, r := range p.Rules {
			add(r.Bytes.Min)
			add(r.Bytes.Max)
			add(r.Bytes.Max + 1)
			if r.BytesPerRank.Max < largest {
				add((r.BytesPerRank.Max + 1) * uint64(ranks))
				add((r.BytesPerRank.Max+1)*uint64(ranks) - 1)
			}
			if r.BytesPerRank.Min < largest {
				add(r.BytesPerRank.Min * uint64(ranks))
			}
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}
