package tuner

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// takeTurns begins this rank's part in the comparison that the settings ask for. change is how long a change
// takes if nothing delays it.
func (c *Communicator) takeTurns(change time.Duration) {
	peer, remove := c.plugin.peers.Add(func() (string, uint64) {
		return c.member.Snapshot().EffectDigest(), c.info.Counter.Seq.Load()
	})
	c.cleanups = append(c.cleanups, remove)
	if c.member.Slot() > 0 {
		c.background("it stays unknown whether rank index 0 compares or learns", c.warnOfMissed)
	}
	if c.member.Slot() != 0 || c.info.Clock == nil {
		return
	}
	log := c.log.About(about(c.info))
	config := trial.Config{Evidence: trial.Evidence{Key: c.key(), Comm: c.info.Comm},
		Versions: memberVersions{c.member}, Change: change, Canary: c.settings.canary, Clock: c.info.Clock,
		Peers: &c.plugin.peers, Peer: peer, Log: log, Save: c.keeper(log, c.member.PublishStatus)}
	if c.settings.learn != "" {
		base := c.inForce().Version
		c.shapes = newShapes(base, c.info)
		c.background("nothing is learned any more, and the active version stays", func(ctx context.Context) {
			config.Evidence = c.learning.newEvidence()
			config.Learn = c.learning.subject(log, config.Evidence, c.settings.learnBudget, base, c.shapes)
			if config.Learn != nil {
				trial.Conduct(ctx, config)
			}
		})
		return
	}
	if c.settings.compare != "" {
		if other := c.compared(); other != nil {
			config.Other = other
		} else if !c.settings.canary {
			return
		}
	}
	const outcome = "nothing is compared any more, and the active version stays"
	c.background(outcome, func(ctx context.Context) { trial.Conduct(ctx, config) })
}

// background runs f on a goroutine until the communicator leaves. outcome is what comes of a panic in it.
func (c *Communicator) background(outcome string, f func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		defer c.survive(outcome)
		f(ctx)
	})
	c.cleanups = append(c.cleanups, func() { cancel(); running.Wait() })
}

// memberVersions is a member as a comparison uses it.
type memberVersions struct{ *agree.Member }

func (t memberVersions) Propose(v trial.Variant) {
	p := v.(*policyfile.Version)
	t.Member.Propose(p.ID(), p.Content())
}

func (t memberVersions) InForce() trial.InForce {
	f := t.Member.InForce()
	return trial.InForce{Version: f.Snapshot.(*snapshot).Version, From: f.From, Proposed: f.Proposed,
		LatestEdit: f.LatestEdit}
}

// compared returns the version that NCCL_TUNER_COMPARE names; nil where it cannot be used, which has been logged.
func (c *Communicator) compared() *policyfile.Version {
	named := c.settings.compare
	if named == compareNCCL {
		return policyfile.None
	}
	files := c.settings.files
	files.Policy = policyfile.Named{Variable: EnvCompare, Path: named}
	read, err := c.plugin.loader.LoadLive(files, c.log)
	if err != nil || read.Faulty {
		c.log.Warnf("%s=%s cannot be used, so nothing is compared with it (allowed: %s, or a sound policy file)",
			EnvCompare, named, compareNCCL)
		return nil
	}
	return read
}

// keeper returns a function that keeps what is found out: a comparison in the metrics and in NCCL_TUNER_RECORD, what is
// learned in NCCL_TUNER_LEARN. By publish it also tells `tunefit status`.
func (c *Communicator) keeper(log telemetry.Log, publish func(context.Context, []byte) error) func(context.Context,
	trial.Evidence) {
	warned := map[string]bool{} // once each, not after each pair
	check := func(setting, what string, err error) {
		if err != nil && !warned[setting] {
			warned[setting] = true
			log.Warnf("%s: %s is not written: %v", setting, what, safefile.Reason(err))
		}
	}
	return func(ctx context.Context, e trial.Evidence) {
		var found any = e.Result
		if e.Result != nil {
			if c.found.Store(e.Result); c.settings.record != "" {
				check(EnvRecord+"="+c.settings.record, "the comparison",
					telemetry.WriteFinding(&c.plugin.timeouts, c.settings.record, e.Result))
			}
		}
		if c.settings.learn != "" {
			check(EnvLearn+"="+c.settings.learn, "what is learned", c.learning.save(e))
			e.Runs = nil
			found = e
		}
		text, err := json.Marshal(found)
		if err == nil {
			err = publish(ctx, text)
		}
		if err != nil && ctx.Err() == nil {
			log.Infof("tunefit status cannot show what is found out: %v", err)
		}
	}
}

// warnOfMissed waits for the rank of the first slot, which compares. It warns of comparisons that this rank
// asks for and that rank does not, because nothing would come of them.
func (c *Communicator) warnOfMissed(ctx context.Context) {
	first := ""
	for first == "" {
		if first, _ = c.member.Owner(ctx, 0); first == "" {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
	}
	for _, a := range c.settings.asked() {
		if !strings.Contains(first, " "+a.variable) {
			c.log.Warnf("%s: %s has no effect: it is set on this rank, and not on rank index 0, "+
				"which compares and learns (needed: the same value on all ranks)", c.info, a.variable)
		}
	}
}
