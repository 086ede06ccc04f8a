package perfrun

import (
	"fmt"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// mostUnmet is how many configurations a line names at most.
const mostUnmet = 8

// Unmet returns messages about what is not offered or did not run as asked for. It is not planned again.
func Unmet(space fit.Space, g *fit.Group) (lines []string) {
	if len(space.NotOffered) > 0 {
		var names []string
		for _, f := range space.NotOffered {
			names = append(names, f.String())
		}
		lines = append(lines, "not offered by NCCL on this machine, and not planned: "+strings.Join(names, ", "))
	}
	families := map[int][]string{} // by channels that NCCL does not take
	var counts []int
	var others []string
	for _, u := range space.Unmet(g) {
		if n := u.Config.Channels; u.OwnChannels {
			if families[n] == nil {
				counts = append(counts, n)
			}
			families[n] = append(families[n], u.Config.Cell.String())
			continue
		}
		others = append(others,
			fmt.Sprintf("%s at %s", u.Config, cli.SizeRange(u.Sizes[0], u.Sizes[len(u.Sizes)-1])))
	}
	for _, n := range counts {
		lines = append(lines, fmt.Sprintf("NCCL does not use %s for %s: it keeps its own number there",
			wording.Plural(n, "channel"), strings.Join(families[n], ", ")))
	}
	if len(others) > 0 {
		lines = append(lines, "not measured as planned, and not planned again: "+cli.Few(others, mostUnmet, ", "))
	}
	return lines
}
