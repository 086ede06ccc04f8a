package tuner

import "github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"

// state is what the metrics show of the communicator.
func (c *Comm) state() telemetry.CommState {
	s := c.inForce()
	return telemetry.CommState{
		ID: c.info.ID, Comm: c.info.Comm,
		Engine: s.Engine(), Version: s.Meaning(), Idle: s.idle,
		Silent: c.silence(s), Unchangeable: c.unchangeable(), Pending: c.member != nil && c.member.IsPending(),
		Finding: c.found.Load(),
	}
}

// silence says why nothing but NCCL can decide by a version; "" where something can.
func (c *Comm) silence(s *snapshot) string {
	switch e := s.Engine(); {
	case e == nil && c.settings.files.None() && c.settings.learn == "":
		return "no_policy"
	case e == nil && c.settings.changes(): // NCCL's choice has its turn
		return ""
	case e == nil:
		return "policy_unusable"
	case !s.view.Empty():
		return ""
	case e.Policy == nil:
		return "model_abstains"
	}
	return "no_row"
}

// unchangeable says why no edit reaches the communicator; "" where edits do.
func (c *Comm) unchangeable() string {
	switch {
	case c.member != nil && c.member.IsStatic():
		return "duplicate_id"
	case c.member != nil && c.member.IsFrozen():
		return "frozen"
	case c.member != nil:
		return ""
	}
	return c.fixedBy.label
}
