package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// MaxRanks is more than any communicator has.
const MaxRanks = 1 << 24

// CallFlags choose the questions to ask.
type CallFlags struct {
	Colls []string
	Sizes string
	Comms []string
}

// Register adds the flags to a command.
func (f *CallFlags) Register(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.Colls, "coll", nil, "collectives, as allreduce,allgather (default all)")
	cmd.Flags().StringVar(&f.Sizes, "sizes", "1K-4G",
		"sizes in bytes: a list as 64K,1M, or a range as 1K-4G, asked at every doubling and wherever a row begins "+
			"or ends")
	cmd.Flags().StringSliceVar(&f.Comms, "comm", nil,
		"communicators as NODESxRANKS_PER_NODE, as 1x8,4x8 (default: those the policy names)")
}

// ParseColls returns the collectives asked for.
func (f *CallFlags) ParseColls() ([]nccl.Coll, error) {
	if len(f.Colls) == 0 {
		return []nccl.Coll{nccl.CollAllReduce, nccl.CollAllGather, nccl.CollReduceScatter, nccl.CollBroadcast,
			nccl.CollReduce}, nil
	}
	var colls []nccl.Coll
	for _, name := range f.Colls {
		c, err := ParseColl(name)
		if err != nil {
			return nil, Usagef("%w", err)
		}
		colls = append(colls, c)
	}
	return colls, nil
}

// ParseSizes returns the sizes asked for, and whether they are a range.
func (f *CallFlags) ParseSizes() (sizes []uint64, isRange bool, err error) {
	if sizes, isRange, err = ParseSizes(f.Sizes); err != nil {
		err = Usagef("--sizes: %w", err)
	}
	return sizes, isRange, err
}

// ParseSizes returns the sizes named, and whether they are samples of a range.
func ParseSizes(text string) (sizes []uint64, isRange bool, err error) {
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
	const longest = 64
	if len(text) > longest {
		return nil, false, fmt.Errorf("%s is no range of sizes (needed: one as 1K-4G)", wording.Quote(text))
	}
	first, err := nccl.ParseBytes(strings.TrimSpace(from))
	if err != nil {
		return nil, false, fmt.Errorf("%s: a range's first size: %w", text, err)
	}
	last, err := nccl.ParseBytes(strings.TrimSpace(to))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("%s: a range's last size: %w", text, err)
	case first > last:
		return nil, false, fmt.Errorf("%s: a range runs from its smaller size to its larger, as %s-%s", text,
			nccl.FormatBytes(last), nccl.FormatBytes(first))
	case first == 0 || last > 1<<50:
		return nil, false, fmt.Errorf("%s: a range runs from 1 or more up to at most 1024T", text)
	}
	for n := first; n <= last; n *= 2 {
		sizes = append(sizes, n)
	}
	return sizes, true, nil
}

// ParseComms returns the communicators asked for, or those that files name, or two common ones.
func (f *CallFlags) ParseComms(named []nccl.Comm) ([]nccl.Comm, error) {
	var comms []nccl.Comm
	for _, text := range f.Comms {
		c, err := ParseComm(text)
		if err != nil {
			return nil, err
		}
		comms = append(comms, c)
	}
	if len(comms) == 0 {
		comms = named
	}
	if len(comms) == 0 {
		comms = []nccl.Comm{{Nodes: 1, Ranks: 8}, {Nodes: 2, Ranks: 16}}
	}
	return comms, nil
}

// ParseComm reads NODESxRANKS_PER_NODE.
func ParseComm(text string) (nccl.Comm, error) {
	n, perNode, ok := strings.Cut(text, "x")
	nodes, err1 := strconv.Atoi(n)
	ranks, err2 := strconv.Atoi(perNode)
	if !ok || err1 != nil || err2 != nil || nodes < 1 || ranks < 1 || nodes > MaxRanks || ranks > MaxRanks ||
		nodes*ranks < 2 || nodes*ranks > MaxRanks {
		return nccl.Comm{}, Usagef("--comm %s: not NODESxRANKS_PER_NODE with at least 2 ranks (needed: as 1x8, or "+
			"4x8 for 4 nodes of 8 ranks)", wording.Quote(text))
	}
	return nccl.Comm{Nodes: nodes, Ranks: nodes * ranks}, nil
}

// SizeRange writes a range of sizes, or the one size that it is.
func SizeRange(first, last uint64) string {
	return nccl.Range{Min: first, Max: last}.String()
}

// LibraryName is the tuner library's file.
const LibraryName = "libnccl-tuner-go.so"

// LibraryFlag is --plugin, the tuner library that runs load or that doctor compares with.
type LibraryFlag struct{ Path string }

// Register adds the flag to a command. does completes the sentence "tuner library ...".
func (f *LibraryFlag) Register(cmd *cobra.Command, does string) {
	cmd.Flags().StringVar(&f.Path, "plugin", "", "tuner library "+does+" (default "+LibraryName+
		" beside tunefit or in ../lib)")
}

// Find returns the library's path.
func (f *LibraryFlag) Find() (string, error) {
	if f.Path != "" {
		return f.Path, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	here := filepath.Dir(self)
	for _, path := range []string{filepath.Join(here, LibraryName), filepath.Join(here, "..", "lib", LibraryName)} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s in %s or ../lib beside it; name it with --plugin", LibraryName, here)
}
