package fit

import (
	"maps"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// count adds an accepted sample to those of its machine.
func (p *Pool) count(s *bench.Sample) {
	var setup bench.Setup
	if s.Setup != nil {
		setup = *s.Setup
	}
	on := model.MeasuredOn{GPU: setup.GPU, Hosts: setup.Hosts, NCCL: setup.NCCL, Driver: setup.Driver,
		Tuner: setup.Tuner}
	m := p.machines[on]
	if m == nil {
		m = new(on)
		m.Source = fileOf(s.Source)
		p.machines[on] = m
	}
	m.Rows++
	if setup.Time != "" && (m.Begun == "" || setup.Time < m.Begun) {
		m.Begun = setup.Time
	}
}

// Begin says from which file the next samples are read. It tells files apart whose
// samples name the same sources.
func (p *Pool) Begin(file string) { p.file = file }

// GPUs lists the different models of GPU, as far as they are known. Drivers name one
// with the vendor's name or without.
func (s *Set) GPUs() []string {
	return s.distinct(func(m *model.MeasuredOn) string { return strings.ReplaceAll(m.GPU, "NVIDIA ", "") })
}

// versions lists the different versions of NCCL, as far as they are known.
func (s *Set) versions() []string {
	return s.distinct(func(m *model.MeasuredOn) string { return m.NCCL })
}

// Releases are those that a policy made of the set is for.
func (s *Set) Releases() nccl.Releases { return (&model.Provenance{NCCL: s.NCCL}).Releases() }

func (s *Set) distinct(of func(*model.MeasuredOn) string) (all []string) {
	for i := range s.Machines {
		if name := of(&s.Machines[i]); name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// Under are the known conditions of all groups, in order.
func (s *Set) Under() []Conditions {
	found := map[Conditions]bool{}
	for _, g := range s.Groups {
		for under := range g.Under {
			if under != (Conditions{}) {
				found[under] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), Conditions.Compare)
}

// mostMachines bounds what a model's file lists.
const mostMachines = 50

// modelMachines are the machines as a model's file keeps them, without those of which nothing is known.
func modelMachines(all []model.MeasuredOn) (out []model.MeasuredOn) {
	for _, m := range all {
		if m.String() != "" && len(out) < mostMachines {
			out = append(out, m)
		}
	}
	return out
}
