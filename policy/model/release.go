package model

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Releases are those that a model and rows made of the measurements are for: the minor versions that were measured and
// those between them. They are all releases where the measurements do not tell theirs, or are RCCL's.
func (p *Provenance) Releases() nccl.Releases {
	oldest, newest, ok := nccl.MeasuredWith(p.NCCL)
	if !ok {
		return nccl.AnyRelease
	}
	return nccl.Releases{Min: nccl.MinorOf(oldest).Min, Max: nccl.MinorOf(newest).Max}
}

// Releases are those that the model is for.
func (m *Model) Releases() nccl.Releases { return m.releases }

// In narrows a model to one communicator of an NCCL; the zero value of release is one that is not known. The model
// abstains where that NCCL may be of a release that it is not for.
func (m *Model) In(release nccl.Releases, comm nccl.Comm) *View {
	v := m.For(comm)
	v.uncheckedAllGather = release.MayUseUncheckedAllGather()
	for coll, g := range v.groups {
		if g != nil && !m.releases.Contains(release) {
			v.groups[coll], v.abstains[coll] = nil, AbstainRelease
		}
	}
	return v
}
