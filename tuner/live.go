package tuner

import (
	"errors"
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/dirstore"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// notLiveReason is why a communicator's policy cannot change during the run.
type notLiveReason struct {
	label string // for metrics; "": it can
	text  string // for the log; "": nobody asks for changes
	fault bool   // something that is there for it cannot be used
}

// noRendezvous is the label where the ranks have no place to meet.
const noRendezvous = "no_rendezvous"

// notLive returns the reason that is known before the ranks meet. All ranks find the same one. So a rank
// that finds one may start on the files it has read: no other rank has met anybody.
func (c *Communicator) notLive() notLiveReason {
	s := c.settings
	ifAsked := func(format string, args ...any) string {
		switch {
		case s.learn != "":
			format += ", and so nothing is learned (" + EnvLearn + ")"
		case s.compares():
			format += ", and so nothing is compared (" + EnvCompare + ", " + EnvCanary + ")"
		default:
			return ""
		}
		return fmt.Sprintf(format, args...)
	}
	switch {
	case s.files.Deterministic:
		return notLiveReason{label: "deterministic",
			text: EnvDeterministic + "=1, a process stays with what it read first"}
	case s.reload != reloadLive:
		return notLiveReason{label: "reload_" + reloads[s.reload],
			text: ifAsked("%s=%s, not live", EnvReload, reloads[s.reload])}
	case s.files.None() && s.learn == "":
		return notLiveReason{label: "no_policy",
			text: ifAsked("neither %s nor %s is set", EnvConfigFile, EnvModelFile)}
	case c.info.Counter == nil:
		return notLiveReason{label: "not_asked"}
	case c.info.ID == 0 && c.info.ABI < nccl.ABIComms:
		return notLiveReason{label: "old_nccl",
			text: fmt.Sprintf("this NCCL (tuner ABI v%d) does not tell the ranks which communicator they are in; "+
				"NCCL 2.28.3 and later do, and so does 2.27 where NCCL_PROFILER_PLUGIN names this library, too",
				c.info.ABI)}
	case c.info.Nodes > 1 && s.rendezvous == "":
		return notLiveReason{label: noRendezvous,
			text: "the ranks are on several nodes: set " + EnvRendezvous +
				" to a directory that all of them share, or to etcd://HOST:PORT/PREFIX; or " + EnvReload +
				"=new if it need not change"}
	}
	if s.rendezvous == "" {
		if err := dirstore.Usable(c.plugin.shm); err != nil {
			return notLiveReason{noRendezvous, fmt.Sprintf("the ranks cannot meet: %v (%s names another directory)",
				err, EnvRendezvous), true}
		}
	}
	return notLiveReason{}
}

// join makes this rank a member of the agreement, and starts on the first rank's version.
func (c *Communicator) join(own *policyfile.Version) error {
	r, err := c.plugin.meet(c.settings, c.info.Nodes, c.log)
	if err != nil {
		return cannotMeet(err)
	}
	c.cleanups = append(c.cleanups, r.release)
	timing := r.timing
	timing.StallLimit = c.settings.stallLimit
	start := own
	if c.settings.learn != "" {
		c.learning = newLearning(c.settings, c.plugin, c.key(), c.info, c.log)
		start = c.learning.withLearned(start)
	}
	self := identity.New()
	for _, a := range c.settings.asked() {
		self += " " + a.variable
	}
	config := agree.Config{
		Comm:     c.key(),
		Ranks:    c.info.Ranks,
		Rank:     c.info.Rank,
		Identity: identity.WithRank(self, c.info.Rank),
		Store:    r.store,
		Poller:   r.poller,
		Clock:    c.plugin.clock,
		Timing:   timing,
		Log:      c.log.About(about(c.info)),
		Counter:  c.info.Counter,
		Uniform:  c.settings.uniform,
		Name:     c.info.Name,
		Own:      start.ID(), OwnContent: start.Content(),
		Stage:    c.stage,
		Observer: c.plugin.exporter,
	}
	ctx, cancel := whileRunning(c.plugin.clock, agree.JoinLimit)
	defer cancel()
	c.member, err = agree.Join(ctx, config)
	switch {
	case errors.Is(err, agree.ErrUnreachable):
		return cannotMeet(fmt.Errorf("%s: %w", c.plugin.setting(r.name), err))
	case err != nil:
		return err
	}
	c.cleanups = append(c.cleanups, func() { c.member.Close() })
	if c.inForce().EffectDigest() != start.EffectDigest() {
		c.log.Infof("%s: the other ranks run on another version than this rank's files: all start on theirs", c.info)
	}
	if !c.member.IsStatic() {
		offer := func(v *policyfile.Version) {
			if c.settings.learn != "" {
				v = c.learning.withLearned(v)
			}
			c.member.Offer(v.ID(), v.Content())
		}
		c.cleanups = append(c.cleanups, c.plugin.loader.Watch(c.settings.files, own, c.log, offer))
	}
	if len(c.settings.asked()) > 0 {
		c.takeTurns(r.changeTime())
	}
	return nil
}

// cannotMeet is the error of a rank that could not use the place where its communicator's ranks meet. Other
// ranks may have met there, on a version that this rank does not know. NCCL's choice could differ from
// theirs, so this rank must not fall back to it.
func cannotMeet(why error) error {
	return fmt.Errorf("this rank cannot meet the others, who may have read other files, and must not decide without "+
		"them: %w. Mend that, or set %s=new on all ranks", why, EnvReload)
}

// key names the communicator in the ranks' records.
func (c *Communicator) key() string { return agree.CommKey(c.info.ID, c.info.Ranks) }

// stage is agree.Config.Stage: it compiles a version for this communicator.
func (c *Communicator) stage(content []byte, digest string, ranks agree.Ranks) (_ agree.Snapshot, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a defect in the plugin: %v", p)
		}
	}()
	v, err := c.plugin.loader.Decode(content, digest, c.log)
	if err != nil {
		return nil, err
	}
	name := ""
	if e := v.Engine(); e != nil && e.Policy != nil {
		if e.Policy.AsksRelease() {
			err = ranks.Same("NCCL " + c.info.NCCL.String())
		}
		if err == nil && e.Policy.AsksName() {
			name, err = ranks.Name()
		}
	}
	if err != nil {
		return nil, err
	}
	return c.prepare(v, name), nil
}

// AtTrigger takes part in a change of the policy. The host calls it before a call that reaches the Counter's
// trigger; call is that call's agree.HashCall. changed reports that another version is in force. An error ends the
// communicator, because this rank cannot know how the others decide.
func (c *Communicator) AtTrigger(call uint64) (changed bool, err error) {
	if c.member == nil {
		return false, errors.New("there is nothing to change")
	}
	next, err := c.member.AtTrigger(c.info.Counter.Seq.Load(), call)
	if next != nil {
		c.metrics.Follow(next.(*snapshot).Engine())
	}
	return next != nil, err
}

// state is what the metrics show of the communicator.
func (c *Communicator) state() telemetry.CommState {
	s := c.inForce()
	return telemetry.CommState{
		ID: c.info.ID, Comm: c.info.Comm,
		Engine: s.Engine(), Version: s.EffectDigest(), NeverDecides: s.neverDecides,
		Silent: c.silence(s), Unchangeable: c.unchangeable(), Pending: c.member != nil && c.member.IsPending(),
		Finding: c.found.Load(),
	}
}

// silence says why nothing but NCCL can decide by a version; "" where something can.
func (c *Communicator) silence(s *snapshot) string {
	switch e := s.Engine(); {
	case e == nil && c.settings.files.None() && c.settings.learn == "":
		return "no_policy"
	case e == nil && len(c.settings.asked()) > 0: // NCCL's choice has its turn
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
func (c *Communicator) unchangeable() string {
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
