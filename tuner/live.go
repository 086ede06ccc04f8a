package tuner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/agree"
)

// live is what keeps a communicator's policy up to date during a run: this rank's
// part in the agreement of all ranks, and the wish to change, which the files bring.
type live struct {
	member  *agree.Member
	unwatch func()
}

// canChange reports whether the communicator's policy may change during the run; why
// says what stands against it, and is empty where nobody wants it.
func (c *Comm) canChange() (ok bool, why string) {
	s := c.settings
	switch {
	case s.reload != reloadLive, s.configFile == "" && s.modelFile == "", c.info.Counter == nil:
		return false, ""
	case c.info.ABI < 5:
		return false, fmt.Sprintf("this NCCL (tuner ABI v%d) does not tell the ranks which communicator they are in; NCCL 2.28.3 and later do", c.info.ABI)
	case c.info.Nodes > 1 && s.rendezvous == "":
		return false, "the ranks are on several nodes: set " + EnvRendezvous + " to a directory that all of them share, or to etcd://HOST:PORT/PREFIX"
	}
	return true, ""
}

// join takes part in the agreement with the other ranks, and starts on the version
// that the first of them brought.
func (c *Comm) join(own version, getenv func(string) string) error {
	r := useRendezvous(c.settings, c.info.Nodes, getenv, c.log)
	c.rendezvous = r
	patience := r.patience(c.settings.strict)
	until := time.Now().Add(patience)
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	o, err := r.open(ctx)
	if err != nil {
		if c.settings.strict {
			return fmt.Errorf("%s=1 and the ranks cannot meet: %w", EnvStrict, err)
		}
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			// Others may have met before it was full, on another version.
			return fmt.Errorf("the ranks cannot meet, and so not tell that all of them have read the same files: %w (make room, or set %s=new)", err, EnvReload)
		}
		c.log.Warnf("%s: the policy cannot change during the run: %v", c.info, err)
		r.cannotBeUsed(own.shared())
		c.now, err = c.prepare(own)
		return err
	}
	log := c.log.about(c.info)
	timing := o.timing
	timing.StallLimit = c.settings.stallLimit
	config := agree.Config{
		Comm:     agree.CommKey(c.info.ID, c.info.Ranks),
		Ranks:    c.info.Ranks,
		Rank:     -1, // NCCL does not tell
		Identity: newIdentity(),
		Store:    o.store,
		Poller:   o.poller,
		Clock:    clock,
		Timing:   timing,
		Log:      log,
		Counter:  c.info.Counter,
		Strict:   c.settings.strict,
		Uniform:  c.settings.uniform,
		Own:      own.shared(),
		Stage: func(content []byte, digest string) (_ agree.Snapshot, err error) {
			var f *inForce
			defer func() {
				if p := recover(); p != nil {
					if f != nil {
						f.Retire()
					}
					err = fmt.Errorf("a defect in the plugin: %v", p)
				}
			}()
			v := own
			if digest != own.digest {
				if v, err = staged.compile(content, digest, getenv, c.log); err != nil {
					return nil, err
				}
			}
			if f, err = c.prepare(v); err != nil {
				return nil, err
			}
			c.foresee(f)
			return f, nil
		},
	}
	// On a goroutine that is free to move: each of the store's operations is one too,
	// and this one is bound to NCCL's thread, which would be put to sleep and woken
	// for each.
	var member *agree.Member
	join := func(ctx context.Context) error {
		return async(func() (err error) {
			member, err = agree.Join(ctx, config)
			return err
		})()
	}
	if err = join(ctx); errors.Is(err, agree.ErrUnreachable) && patience < agree.JoinLimit {
		// The store has told too much for this rank to go on alone.
		ctx, cancel := context.WithTimeout(context.Background(), agree.JoinLimit)
		defer cancel()
		err = join(ctx)
	}
	if err != nil {
		return err
	}
	c.now = member.Snapshot().(*inForce)
	if alone := strings.HasPrefix(member.Status().Why, agree.ErrUnreachable.Error()); alone {
		r.cannotBeUsed(own.shared())
	} else {
		r.setUsable(true)
	}
	if c.now.meaning() != own.meaning() {
		c.log.Infof("%s: the other ranks run on another version than this rank's files: all start on theirs", c.info)
	}
	c.live = &live{member: member}
	if member.Status().State != "static" { // that changes no more, whatever becomes of the files
		c.live.unwatch = files.watch(c.settings, own, getenv, c.log, c.live)
	}
	return nil
}

// Turn takes part in the change of the policy that is due at this call, of which call is
// agree.HashCall: the Counter's trigger is reached, and no Move is ready. Attached may be
// another afterwards. An error ends the communicator: this rank cannot know any more how
// the others decide.
func (c *Comm) Turn(call uint64) error {
	if c.live == nil {
		return errors.New("there is nothing to change")
	}
	next, err := c.live.member.Slow(c.info.Counter.Seq.Load(), call)
	if next != nil {
		c.now = next.(*inForce)
	}
	return err
}

// Meaning implements agree.Snapshot.
func (f *inForce) Meaning() string { return f.meaning() }

// Begin implements agree.Snapshot.
func (f *inForce) Begin() {
	defer f.comm.survive("what was decided is not logged in full")
	f.begin()
}

// Retire implements agree.Snapshot.
func (f *inForce) Retire() {
	defer f.comm.survive("some memory is lost")
	f.comm.retire(f)
}

// survive ends a panic on a goroutine of the plugin's own, which would end the job.
func (c *Comm) survive(outcome string) {
	if p := recover(); p != nil {
		c.log.Warnf("%s: a defect in the plugin: %v; %s", c.info, p, outcome)
	}
}

func (l *live) close() {
	if l.unwatch != nil {
		l.unwatch()
	}
	l.member.Close()
}

// whyNotLive keeps a process from saying for each of its communicators the same.
var whyNotLive sync.Map

// sayWhyNotLive tells once why the policy cannot change during the run: a warning
// where somebody asked for it.
func sayWhyNotLive(why string, s settings, log Log) {
	if why == "" || log.Emit == nil {
		return
	}
	if _, said := whyNotLive.LoadOrStore(why, true); said {
		return
	}
	say := log.Infof
	if s.mustReload {
		say = log.Warnf
	}
	say("the policy cannot change during the run: %s", why)
}
