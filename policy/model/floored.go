package model

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Floors returns what a job must set so that it has the channels that the model chooses.
func (m *Model) Floors() (floors nccl.Floors) {
	for key, g := range m.groups {
		if !slices.ContainsFunc(g.curves, func(c compiledCurve) bool { return c.floored }) {
			continue
		}
		view := m.For(key.Comm)
		for _, b := range g.Sizes() {
			choice, why := view.Choose(nccl.Call{Coll: key.Coll, Bytes: b}, nccl.Everything())
			if c := g.curve(choice.Config); why == Decides && c != nil && c.floored {
				floors.Add(choice.Algo, choice.Channels)
			}
		}
	}
	return floors
}
