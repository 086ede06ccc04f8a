package doctor

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
)

// floorFindings is about files that choose more channels than a job has by itself.
func (d *doctor) floorFindings(f filesFound) (found []finding) {
	vars, _ := channels.VariablesFromEnv(d.env.Get, nccl.Newest) // what NCCL refuses of it is no number of channels
	has := nccl.Floors{Channels: vars.MinChannels, CTAs: vars.MinCTAs}
	check := func(file fileFound, needs nccl.Floors) {
		if missing := needs.Above(has); missing != (nccl.Floors{}) {
			found = append(found, warned("measure what the job has without (tunefit plan) and fit anew, or set that, with which NCCL's own choices change, too",
				"%s needs %s, and this job does not have it: so many channels were measured only with that, and NCCL silently uses fewer", file.name, missing))
		}
	}
	if f.compiled != nil {
		check(f.policy, nccl.ReadFloors(f.policy.text))
	}
	if f.fitted != nil {
		check(f.model, f.fitted.Floors())
	}
	return found
}
