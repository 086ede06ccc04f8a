package nccl

import (
	"fmt"
	"strings"
)

// Floors are the least values of NCCL_MIN_NCHANNELS and NCCL_MIN_CTAS that a job needs to have the channels that
// are chosen for it, since a tuner can only lower their number; 0: none.
type Floors struct{ Channels, CTAs int }

// CountsNVLSChannels reports whether an algorithm uses the channels of NVLS, which NCCL counts apart: NCCL_MIN_CTAS
// raises them, NCCL_MIN_NCHANNELS does not (2.30.7: src/transport/nvls.cc).
func CountsNVLSChannels(a Algo) bool { return a == AlgoNVLS || a == AlgoNVLSTree }

// Add takes a channel count that is chosen.
func (f *Floors) Add(a Algo, channels int) {
	if CountsNVLSChannels(a) {
		f.CTAs = max(f.CTAs, channels)
	} else {
		f.Channels = max(f.Channels, channels)
	}
}

// Above returns what is needed beyond the floors that a job has. NCCL_MIN_CTAS raises all channels.
func (f Floors) Above(has Floors) Floors {
	if f.Channels <= max(has.Channels, has.CTAs) {
		f.Channels = 0
	}
	if f.CTAs <= has.CTAs {
		f.CTAs = 0
	}
	return f
}

// String lists the variables as a job must set them; empty: none.
func (f Floors) String() string {
	var set []string
	for _, v := range []struct {
		name  string
		value int
	}{{"NCCL_MIN_NCHANNELS", f.Channels}, {"NCCL_MIN_CTAS", f.CTAs}} {
		if v.value > 0 {
			set = append(set, fmt.Sprintf("%s=%d", v.name, v.value))
		}
	}
	return strings.Join(set, " and ")
}
