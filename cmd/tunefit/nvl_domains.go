package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// nvlDomains is how many NVLink domains NCCL says that a communicator spans. The zero
// value is what it says: one for each node, in every version that tells tuners, 2.28.3
// and later (initNvlDomainInfo in its src/init.cc, at least up to 2.30). Another number
// is for a policy that is to be ready for an NCCL that counts otherwise.
type nvlDomains int

// nvlUntold is an NCCL that does not tell.
const nvlUntold nvlDomains = -1

func (n *nvlDomains) register(cmd *cobra.Command) {
	cmd.Flags().Var(n, "nvl-domains", "NVLink domains that NCCL says a communicator spans; 0: it does not say, as before 2.28 (default: one for each node, as NCCL counts)")
}

// Set, String and Type make it a flag's value.
func (n *nvlDomains) Set(text string) error {
	v, err := strconv.Atoi(text)
	if err != nil || v < 0 || v > maxRanks {
		return errors.New("allowed: 1 up to the number of ranks, or 0")
	}
	*n = nvlDomainsOf(v)
	return nil
}

func (n *nvlDomains) String() string {
	if *n == 0 {
		return ""
	}
	return strconv.Itoa(max(0, int(*n)))
}

func (n *nvlDomains) Type() string { return "int" }

// nvlDomainsOf makes of the number that a person gives, where 0 is none, the value.
func nvlDomainsOf(number int) nvlDomains {
	if number == 0 {
		return nvlUntold
	}
	return nvlDomains(number)
}

// toldNVLDomains is what NCCL tells of this communicator, 0 for nothing.
func (s shape) toldNVLDomains() int {
	switch s.nvl {
	case 0:
		return s.nodes
	case nvlUntold:
		return 0
	}
	return int(s.nvl)
}

// spanning returns the communicator with so many NVLink domains.
func (s shape) spanning(n nvlDomains) (shape, error) {
	if int(n) > s.ranks {
		return s, fmt.Errorf("%d NVLink domains in a communicator of %s (allowed: 1 to %d, 0: NCCL does not say)", n, cli.CountOf(s.ranks, "rank"), s.ranks)
	}
	s.nvl = n
	return s, nil
}

// through is the communicator as a tuner of that version of the ABI hears of it.
func (s shape) through(abi int) shape {
	if s.nvl == 0 && abi < nccl.ABIComms {
		s.nvl = nvlUntold
	}
	return s
}
