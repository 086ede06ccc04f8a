package ncclchoice

import (
	"fmt"
	"os"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
)

// WhichNCCL is the release that --nccl names, else the installed one, else the newest known one. It notes a release
// whose rules are not known.
func (e *Env) WhichNCCL(named string) (v nccl.Version, notes []string, err error) {
	if named == "" {
		switch v = e.Installed(); {
		case v == 0:
			return nccl.Newest, nil, nil
		case v < nccl.Oldest:
			return nccl.Newest,
				[]string{
					fmt.Sprintf("the tuner ABI of NCCL %s, installed here, is not known; this is for NCCL %s "+
						"(--nccl names another)", v, nccl.Newest)}, nil
		}
	} else if v, err = nccl.ParseVersion(named); err != nil {
		return 0, nil, cli.Usagef("--nccl: %w", err)
	}
	if v > nccl.Newest {
		notes = []string{fmt.Sprintf("the rules of NCCL %s are not known; those of %s are used", v, nccl.Newest)}
	}
	return v, notes, nil
}

const NCCLUsage = "release of NCCL that chooses, as 2.28.9 (default: the one that a policy or model says it was " +
	"measured with, else the installed one, else 2.31.2)"

// UncountedVariables are notes on the variables that are set and that NCCL's choice here ignores.
func UncountedVariables() (notes []string) {
	for _, v := range channels.NotCounted {
		if os.Getenv(v.Name) != "" {
			notes = append(notes, fmt.Sprintf("%s is set and does not count here: it %s", v.Name, v.Does))
		}
	}
	return notes
}

// countedVariables lists the variables that are set and that count if estimates are derived.
func countedVariables() string {
	var set []string
	for _, name := range channels.Counted {
		if os.Getenv(name) != "" {
			set = append(set, name)
		}
	}
	return strings.Join(set, ", ")
}
