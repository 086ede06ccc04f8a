package tuning

import (
	"errors"
	"fmt"
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// validate checks what Table and Choose rely on.
func validate(name string, set *Set) error {
	var errs []error
	bad := func(t *Tuning, format string, args ...any) {
		if len(errs) < 20 {
			errs = append(errs, fmt.Errorf("%s: %d nodes: %s", name, t.Nodes, fmt.Sprintf(format, args...)))
		}
	}
	if len(set.Tunings) == 0 {
		return fmt.Errorf("%s: holds no tuning", name)
	}
	for i, t := range set.Tunings {
		if t.Nodes < 1 || t.Ranks < t.Nodes {
			bad(t, "%d ranks on %d nodes is impossible", t.Ranks, t.Nodes)
		}
		if t.NChannels < 1 || t.NChannels > nccl.MaxChannels || t.NVLSChannels < 0 ||
			t.NVLSChannels > nccl.MaxChannels {
			bad(t, "%d channels, %d for NVLS; 1..%d and 0..%d are possible", t.NChannels, t.NVLSChannels,
				nccl.MaxChannels, nccl.MaxChannels)
		}
		if i > 0 && set.Tunings[i-1].Comm == t.Comm {
			bad(t, "given twice with %d ranks", t.Ranks)
		}
		for a, p := range nccl.Cells {
			if n := t.MaxThreads[a][p]; n < 0 || n > nccl.MaxThreads {
				bad(t, "%s/%s: %d threads; 0..%d are possible", a, p, n, nccl.MaxThreads)
			}
			if n := t.ThreadThresholds[a][p]; n < 0 || n > math.MaxInt32 {
				bad(t, "%s/%s: thread threshold %d is not a 31-bit number", a, p, n)
			}
			for c := range nccl.Coll(nccl.NumColls) {
				lat, bw := t.Latencies[c][a][p], t.Bandwidths[c][a][p]
				if !(lat >= 0) || !(bw >= 0) {
					bad(t, "%s %s/%s: latency %v, bandwidth %v; both must be 0 or more", c, a, p, lat, bw)
				}
			}
		}
	}
	return errors.Join(errs...)
}
