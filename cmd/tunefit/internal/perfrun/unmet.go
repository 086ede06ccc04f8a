package perfrun

import (
	"fmt"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// mostUnmet bounds what is said of configurations that were asked for in vain.
const mostUnmet = 8

// Unmet says what was asked for in vain, and is not asked for again.
func Unmet(space fit.Space, g *fit.Group) (lines []string) {
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
		others = append(others, fmt.Sprintf("%s at %s", u.Config, commspec.SizeRange(u.Sizes[0], u.Sizes[len(u.Sizes)-1])))
	}
	for _, n := range counts {
		count := cli.CountOf(n, "channel") + " are"
		if n == 1 {
			count = "1 channel is"
		}
		lines = append(lines, fmt.Sprintf("%s not to be had for %s: NCCL keeps its own number there", count, strings.Join(families[n], ", ")))
	}
	if len(others) > 0 {
		lines = append(lines, "asked for, not measured as asked, and not asked for again: "+cli.Few(others, mostUnmet, ", "))
	}
	return lines
}
