package commspec

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
)

// NVLDomains is how many NVLink domains a person says that NCCL tells tuners of. The zero value is what NCCL tells:
// one for each node, in every version that tells tuners, 2.28.3 and later (initNvlDomainInfo in its src/init.cc, at
// least up to 2.30). Another number is for a policy that is to be ready for an NCCL that counts otherwise.
type NVLDomains int

// NVLUntold is an NCCL that does not tell.
const NVLUntold NVLDomains = -1

// Register adds the flag to a command.
func (n *NVLDomains) Register(cmd *cobra.Command) {
	cmd.Flags().Var(n, "nvl-domains",
		"NVLink domains that NCCL says a communicator spans; 0: it does not say, as before 2.28 (default: one for "+
			"each node, as NCCL counts)")
}

// Set implements pflag.Value.
func (n *NVLDomains) Set(text string) error {
	v, err := strconv.Atoi(text)
	if err != nil || v < 0 || v > MaxRanks {
		return errors.New("allowed: 1 up to the number of ranks, or 0")
	}
	*n = NVLDomainsOf(v)
	return nil
}

func (n *NVLDomains) String() string {
	if *n == 0 {
		return ""
	}
	return strconv.Itoa(max(0, int(*n)))
}

// Type implements pflag.Value.
func (n *NVLDomains) Type() string { return "int" }

// NVLDomainsOf makes of the number that a person gives, where 0 is none, the value.
func NVLDomainsOf(number int) NVLDomains {
	if number == 0 {
		return NVLUntold
	}
	return NVLDomains(number)
}

// Told is what NCCL tells a tuner about a communicator through a version of the ABI; 0 for nothing.
func (n NVLDomains) Told(c nccl.Comm, abi int) int {
	switch {
	case n == NVLUntold, abi < nccl.ABIComms:
		return 0
	case n == 0:
		return c.Nodes
	}
	return int(n)
}

// Check refuses more domains than a communicator has ranks.
func (n NVLDomains) Check(c nccl.Comm) error {
	if int(n) > c.Ranks {
		return fmt.Errorf("%d NVLink domains in a communicator of %s (allowed: 1 to %d, 0: NCCL does not say)", n,
			plural.Of(c.Ranks, "rank"), c.Ranks)
	}
	return nil
}
