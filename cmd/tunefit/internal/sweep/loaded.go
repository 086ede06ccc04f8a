package sweep

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// needsLoaded reports whether the default is to be measured with the library loaded, too: RCCL chooses otherwise on
// gfx950 as soon as any tuner is there, whatever it says. Logs of runs by hand do not tell which run that was.
func (s *Sweep) needsLoaded(key fit.Key, group *fit.Group) bool {
	return s.From == nil && nccl.IsRCCL(s.release(key)) && group != nil && len(group.Default) > 0 && !s.verified(key) &&
		!slices.ContainsFunc(s.journal.of(key).batches, func(b *Batch) bool { return b.Kind == Loaded })
}

// loaded is one start of the default with the library, which has no policy.
func (s *Sweep) loaded(key fit.Key, group *fit.Group) Batch {
	return Batch{Kind: Loaded, Starts: []perfrun.Start{{Name: perfrun.Name(key) + "-loaded", Key: key,
		Sizes: perfrun.Sizes(key, group, s.Sizes, s.SizesNamed), Policy: "none"}}}
}

const (
	// leastChange and sigmasOfChange: times of one run each differ if they are so far apart, in ln(us).
	leastChange    = 0.03
	sigmasOfChange = 4
)

// changedByLoading says where the default takes another time with the library loaded; "" where that was not measured.
func (s *Sweep) changedByLoading(key fit.Key, group *fit.Group) string {
	var slower, faster []string
	measured := false
	for _, r := range s.journal.of(key).runs {
		if r.found == nil || r.kind != Loaded || group == nil {
			continue
		}
		for _, m := range r.found.Samples {
			i := slices.IndexFunc(group.Default, func(d fit.Point) bool { return d.Bytes == m.Bytes })
			if i < 0 || m.InPlace {
				continue
			}
			measured = true
			change := math.Log(m.Micros / group.Default[i].Micros)
			text := fmt.Sprintf("%s (%.2f times as long)", nccl.FormatBytes(m.Bytes), math.Exp(change))
			switch need := max(leastChange, sigmasOfChange*group.Noise); {
			case change > need:
				slower = append(slower, text)
			case change < -need:
				faster = append(faster, text)
			}
		}
	}
	switch {
	case !measured:
		return ""
	case len(slower)+len(faster) == 0:
		return "RCCL's own choice takes as long with the library loaded as without"
	}
	var parts []string
	if len(slower) > 0 {
		parts = append(parts, "slower at "+cli.Few(slower, mostUnsteady, ", "))
	}
	if len(faster) > 0 {
		parts = append(parts, "faster at "+cli.Few(faster, mostUnsteady, ", "))
	}
	return "loading the library, or any tuner, changes RCCL's own choice: " + strings.Join(parts, "; ") +
		" (gains are counted against RCCL without a tuner, and --prove shows what is left; a row that asks for what " +
		"RCCL chose brings it back)"
}
