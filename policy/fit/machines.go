package fit

import (
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
	begun := setup.Time
	setup.Time, setup.MinChannels, setup.MinCTAs = "", "", "" // of a run, not of a machine
	m := p.setups[setup]
	if m == nil {
		m = &MeasuredOn{Setup: setup, Source: fileOf(s.Source)}
		p.setups[setup] = m
	}
	m.Rows++
	if begun != "" && (m.Time == "" || begun < m.Time) {
		m.Time = begun
	}
}

// Begin says from which file the next samples are read. It tells files apart whose
// samples name the same sources.
func (p *Pool) Begin(file string) { p.file = file }

// MeasuredOn is a setup that accepted samples were measured with.
type MeasuredOn struct {
	bench.Setup        // Time is the earliest
	Rows        int    // samples
	Source      string // the file of the first
}

// GPUs lists the different models of GPU, as far as they are known. Drivers name one
// with the vendor's name or without.
func (s *Set) GPUs() []string {
	return s.distinct(func(m *MeasuredOn) string { return strings.ReplaceAll(m.GPU, "NVIDIA ", "") })
}

// versions lists the different versions of NCCL, as far as they are known.
func (s *Set) versions() []string { return s.distinct(func(m *MeasuredOn) string { return m.NCCL }) }

// channelsOnlyLower reports whether all was measured with releases that take a tuner's channels only where they are
// fewer than NCCL's own.
func (s *Set) channelsOnlyLower() bool {
	all := s.versions()
	return len(all) > 0 && !slices.ContainsFunc(all, func(name string) bool {
		release, err := nccl.ParseVersion(name)
		return err != nil || !release.Has(nccl.ChannelsOnlyLower)
	})
}

func (s *Set) distinct(of func(*MeasuredOn) string) (all []string) {
	for i := range s.Machines {
		if name := of(&s.Machines[i]); name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// mostMachines bounds what a model's file lists.
const mostMachines = 50

// modelMachines are the machines as a model's file keeps them, without those of which nothing is known.
func modelMachines(all []MeasuredOn) (out []model.MeasuredOn) {
	for _, m := range all {
		if m.Setup != (bench.Setup{}) && len(out) < mostMachines {
			out = append(out, model.MeasuredOn{GPU: m.GPU, Hosts: m.Hosts, NCCL: m.NCCL, Driver: m.Driver,
				Tuner: m.Tuner, Begun: m.Time, Rows: m.Rows})
		}
	}
	return out
}

// String names what is known of a machine.
func (m *MeasuredOn) String() string {
	var known []string
	library := "NCCL "
	if strings.HasPrefix(m.NCCL, "RCCL") {
		library = ""
	}
	for _, part := range []struct{ before, text string }{{"", m.GPU}, {"on ", m.Hosts}, {library, m.NCCL},
		{"driver ", m.Driver}, {"tuner ", m.Tuner}, {"first run ", m.Time}} {
		if part.text != "" {
			known = append(known, part.before+part.text)
		}
	}
	return strings.Join(known, ", ")
}
