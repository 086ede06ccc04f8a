package nccl

import (
	"fmt"
	"regexp"
	"strconv"
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

// Comment is the line of a policy file that says what the next row needs.
func (f Floors) Comment() string {
	return fmt.Sprintf("# needs %s in the job: so many channels were measured only with that", f)
}

var floorComment = regexp.MustCompile(
	`(?m)^[ \t]*#[ \t]*needs (?:NCCL_MIN_NCHANNELS=([0-9]{1,3})|NCCL_MIN_CTAS=([0-9]{1,3})) in the job`)

// ReadFloors returns what the comments of a policy file say that its rows need.
func ReadFloors(policy []byte) (f Floors) {
	for _, m := range floorComment.FindAllSubmatch(policy, -1) {
		channels, _ := strconv.Atoi(string(m[1])) // 0 where it is the other
		ctas, _ := strconv.Atoi(string(m[2]))
		f.Channels, f.CTAs = max(f.Channels, channels), max(f.CTAs, ctas)
	}
	return f
}
