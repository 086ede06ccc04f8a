package tuner

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// Release is this project's release.
const Release = "0.2.0"

// CommInfo is what NCCL tells about a communicator when it creates it.
type CommInfo struct {
	ID   uint64 // equal on all ranks; 0: not told
	Rank int    // -1: not told
	nccl.Comm
	ABI int // 2 to 7
	// NVLDomains counts the NVLink domains that the ranks are in. 0: NCCL does not tell.
	NVLDomains int
	NCCL       nccl.Releases // what the NCCL that asks may be
	// Name is what the program calls the communicator on this rank. "": nothing, or NCCL does not tell.
	Name string

	// Counter is the host's count of calls. Without one, the start version stays for good: NCCL asks nothing.
	Counter *agree.Counter
	// CallsBy, if not nil, are counts of calls by decider, telemetry.MaxDeciders of them. The thread that makes the
	// calls writes them, until Close.
	CallsBy []atomic.Uint64
	// Clock is the host's. Without one the job compares nothing.
	Clock *trial.Clock
}

// identity is the communicator's ID as the log has it; "": NCCL tells none.
func (c CommInfo) identity() string {
	if c.ID == 0 {
		return ""
	}
	return fmt.Sprintf("%#x", c.ID)
}

func (c CommInfo) String() string {
	id, release := "", ""
	if c.ID != 0 {
		id = " " + c.identity()
	}
	if c.Name != "" {
		id += fmt.Sprintf(" %q", c.Name)
	}
	if v := c.NCCL.Exact(); v != 0 {
		release = fmt.Sprintf("NCCL %s, ", v)
	}
	return fmt.Sprintf("communicator%s of %s on %s (%sABI v%d)", id, wording.Plural(c.Ranks, "rank"),
		wording.Plural(c.Nodes, "node"), release, c.ABI)
}

// Communicator answers for one communicator. NCCL calls it from one thread at a time.
type Communicator struct {
	plugin   *Plugin
	info     CommInfo
	log      telemetry.Log
	settings settings

	// fixed is the version in force where none can follow. Else it is member's, see inForce.
	fixed   *snapshot
	fixedBy notLiveReason // why none can follow; no label: one can

	passes *passes // what decides under EnvPasses; else nil

	// Where the policy may change during the run.
	member   *agree.Member                    // this rank in the agreement; nil where it may not
	cleanups []func()                         // end what join has begun, in reverse order
	found    atomic.Pointer[trial.Conclusion] // of the comparison by now; nil: nothing
	shapes   *shapes                          // of calls, where this rank learns; else nil
	learning *learning                        // nil: it does not learn

	metrics   *telemetry.CommMetrics
	recording *telemetry.Recording // who decided what is noted there; nil: nowhere
	decided   map[string]int       // decisions that were logged, by what made them

	loggedUnchecked atomic.Bool
}

// errUnusable fails a strict init. What is wrong was logged.
var errUnusable = errors.New(EnvStrict + "=1 and there is no policy that can be used")

// Open prepares the policy for a communicator. Without a usable policy it logs why. It then returns a Communicator
// that never decides, or with NCCL_TUNER_STRICT=1 an error. Close ends what Open began.
func (p *Plugin) Open(info CommInfo, log telemetry.Log) (c *Communicator, err error) {
	settings, ok := readSettings(p.getenv, log)
	c = &Communicator{plugin: p, info: info, log: log, settings: settings,
		metrics: p.exporter.New(settings.metrics, info.CallsBy), recording: p.recorder.Of(info.ID, info.Rank),
		decided: map[string]int{}}
	begun, opened := c, false
	defer func() {
		if !opened {
			begun.leave()
		}
	}()
	if settings.strict && settings.files.None() && settings.passes == "" {
		log.Warnf("%s=1 and neither %s nor %s is set", EnvStrict, EnvConfigFile, EnvModelFile)
		return nil, errUnusable
	}
	if settings.passes != "" && info.Ranks >= 1 && info.Nodes >= 1 {
		if err = c.openPasses(); err == nil && settings.strict && !ok {
			err = errUnusable
		}
		opened = err == nil
		return c, err
	}
	own, err := p.loader.Load(settings.files, log)
	switch {
	case err != nil:
		return nil, err
	case settings.strict && (!ok || own.Faulty):
		return nil, errUnusable
	case info.Ranks < 1 || info.Nodes < 1:
		log.Warnf("%s: not a communicator, NCCL decides", info)
		return c, nil
	case info.ABI == nccl.ABINoCosts && settings.envChooses && own.Engine() != nil:
		// Later ABIs mark what NCCL_ALGO and NCCL_PROTO exclude as unavailable.
		c.logStart(record.Start{Because: "NCCL_ALGO or NCCL_PROTO is set and this NCCL does not tell what they allow"})
		return c, nil
	}
	switch c.fixedBy = c.notLive(); {
	case c.fixedBy.label == "":
		err = c.join(own)
	case settings.strict && c.fixedBy.fault:
		err = fmt.Errorf("%s=1 and %s", EnvStrict, c.fixedBy.text)
	default:
		p.logWhyNotLive(c.fixedBy, settings, log)
		name := "" // the ranks do not meet, and may have different ones
		if info.Ranks == 1 {
			name = info.Name
		}
		c.fixed = c.prepare(own, name)
	}
	if err != nil {
		return nil, err
	}
	c.logVersion()
	c.metrics.Follow(c.inForce().Engine())
	c.metrics.Open(log, c.state)
	opened = true
	return c, nil
}

// logVersion logs the version that the communicator starts on.
func (c *Communicator) logVersion() {
	s := c.inForce()
	var start record.Start
	if e := s.Engine(); e == nil {
		start.Because = "no policy"
	} else {
		start.Version = e.Digest.String()
		if e.Policy != nil {
			start.Policy, start.Rows = e.Policy.File, len(e.Policy.Rules)
		}
		if e.Model != nil {
			start.Model = e.Model.Name
		}
		if s.view.Empty() {
			start.Because = nothingFor(e, s.view)
		}
	}
	c.logStart(start)
	if s.neverDecides {
		c.recording.NoteIdle()
	}
}

// logStart logs what the communicator is, and what it starts with.
func (c *Communicator) logStart(s record.Start) {
	s.Library, s.ID, s.Name, s.Comm, s.ABI = Release, c.info.identity(), c.info.Name, c.info.Comm, c.info.ABI
	if v := c.info.NCCL.Exact(); v != 0 {
		s.NCCL = v.String()
	}
	c.log.Event(telemetry.Info, &s)
}

// nothingFor says why neither rows nor model are for a communicator.
func nothingFor(e *policy.Engine, view *policy.EngineView) string {
	var parts []string
	if e.Policy != nil {
		parts = append(parts, fmt.Sprintf("no row of %s is for it", e.Policy.File))
	}
	if e.Model != nil {
		parts = append(parts, fmt.Sprintf("the model %s abstains (%s)", e.Model.Name, view.ModelAbstains()))
	}
	return strings.Join(parts, ", ")
}

// leave ends this rank's part in the agreement, and all that belongs to it.
func (c *Communicator) leave() {
	for _, end := range slices.Backward(c.cleanups) {
		end()
	}
	c.cleanups = nil
}

// EndWait makes a waiting AtTrigger return an error, and each later one too. Any goroutine may call it, while
// other methods run. The caller must still call Close once those have returned.
func (c *Communicator) EndWait() {
	if c.member != nil {
		c.member.EndWait()
	}
}

// Close sums up the decisions that were logged, and returns when nothing runs any more for the communicator. That takes
// a few milliseconds. It takes about a second if the ranks' store hangs, and another second if the directory of metrics
// does.
func (c *Communicator) Close() {
	c.leave()
	c.metrics.Close()
	telemetry.SumUp(c.log, c.info.identity(), c.decided)
}

// inForce returns the version in force; nil: NCCL decides everything, for good. Where the ranks agree on
// versions, the member owns it. C holds only the version's decisions, in its cache.
func (c *Communicator) inForce() *snapshot {
	switch {
	case c.passes != nil:
		return c.passes.now()
	case c.member != nil:
		return c.member.Snapshot().(*snapshot)
	}
	return c.fixed
}

// HasPasses reports whether Decide wants to be asked again whenever the bytes are not those of the query before.
func (c *Communicator) HasPasses() bool { return c.passes != nil }

// NeverDecides reports that Decide never decides anything.
func (c *Communicator) NeverDecides() bool {
	s := c.inForce()
	return s == nil || s.neverDecides
}

// Decide answers one query; see policy.EngineView.Decide. decider is the index of CommInfo.CallsBy by which
// such calls are counted.
func (c *Communicator) Decide(q policy.Query) (d policy.Decision, decider int) {
	if c.passes != nil {
		c.passes.follow(q)
	}
	s := c.inForce()
	a := s.view.Decide(q)
	if c.passes != nil {
		c.passes.log(q, a)
	}
	if s.decisions != nil {
		s.decisions.Add(q, a)
	}
	c.recording.Note(s.Engine(), q, a)
	if c.shapes != nil {
		c.shapes.add(s.EffectDigest(), q, a.Decision)
	}
	return a.Decision, c.metrics.Decider(a)
}

// about names the communicator at the head of a line.
func about(c CommInfo) string { return fmt.Sprintf("communicator %#x", c.ID) }
