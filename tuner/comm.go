package tuner

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/agree"
)

// Version is this project's release.
const Version = "0.1.0"

// CommInfo is what NCCL tells about a communicator when it creates it.
type CommInfo struct {
	ID    uint64 // equal on all ranks; 0 before ABI v5
	Ranks int
	Nodes int
	ABI   int // 2 to 7
	// NVLDomains counts the NVLink domains that the ranks are in; 0 where NCCL does
	// not tell.
	NVLDomains int
	// Constants says that NCCL lets its tuning constants be changed.
	Constants bool
	// ConstantsLost says that NCCL passes constants that it has not set yet: since 2.31 it
	// sets them after the tuner's init, so that what a tuner writes has no effect.
	ConstantsLost bool
	// UncheckedAllGather is what the function of this name says.
	UncheckedAllGather bool

	// Counter is what the host counts calls by, as agree.Counter says; nil: it does
	// not, and what the communicator starts on stays.
	Counter *agree.Counter
	// Host, if not nil, keeps something beside each version of the policy.
	Host Host
}

// Host keeps something of its own beside each version of a communicator's policy: a
// cache of its decisions.
type Host interface {
	// Attach may be called on any goroutine, Detach once for each result.
	Attach() (any, error)
	Detach(attached any)
	// Remember adds a decision to what is attached to a version that is not in force
	// yet. Queries may come twice.
	Remember(attached any, q policy.Query, d policy.Decision)
}

func (c CommInfo) String() string {
	id := ""
	if c.ID != 0 {
		id = fmt.Sprintf(" %#x", c.ID)
	}
	return fmt.Sprintf("communicator%s of %s on %s (ABI v%d)", id, plural(c.Ranks, "rank", "ranks"), plural(c.Nodes, "node", "nodes"), c.ABI)
}

// Comm answers for one communicator. NCCL calls it from one thread at a time.
type Comm struct {
	info      CommInfo
	log       Log
	settings  settings
	constants []model.Constant
	now       *inForce // what decides; nil: nothing, ever
	live      *live    // nil: `now` stays
	known     known    // what a new version is asked before it comes into force
	// rendezvous is where its ranks meet, or would if they could; nil: nowhere.
	rendezvous *rendezvous

	saidUnchecked atomic.Bool
}

// inForce is a version of the policy as the communicator uses it.
type inForce struct {
	version
	view *policy.EngineView
	// decisions, if not nil, gets each decision as text.
	decisions *decisionLog
	attached  any      // the host's
	foreseen  []answer // not logged yet
}

// Open prepares what decides for a communicator. Without anything, it returns a Comm
// that is Idle and never decides; with NCCL_TUNER_STRICT=1 that is an error. What is
// wrong has been logged then. Close ends what Open began.
func Open(info CommInfo, getenv func(string) string, log Log) (c *Comm, err error) {
	settings, ok := readSettings(getenv, log)
	filesTrusted.Store(settings.trustFiles)
	c = &Comm{info: info, log: log, settings: settings}
	begun, opened := c, false
	defer func() {
		if !opened {
			begun.leave()
		}
	}()
	own, _, err := c.load(getenv)
	switch {
	case err != nil:
		return nil, err
	case settings.strict && !ok:
		return nil, errUnusable
	case info.Ranks < 1 || info.Nodes < 1:
		log.Warnf("%s: not a communicator, NCCL decides", info)
		return c, nil
	case info.ABI == nccl.ABINoCosts && settings.envChooses && own.engine != nil:
		// Later ABIs mark what NCCL_ALGO and NCCL_PROTO exclude as unavailable.
		log.Infof("%s %s: NCCL_ALGO or NCCL_PROTO is set and this NCCL does not tell what they allow, NCCL decides", Version, info)
		return c, nil
	}
	if live, why := c.canChange(); live {
		err = c.join(own, getenv)
	} else {
		sayWhyNotLive(why, settings, log)
		c.now, err = c.prepare(own)
	}
	if err != nil {
		return nil, err
	}
	c.start()
	opened = true
	return c, nil
}

// load reads the communicator's files, or, where they are not to be looked at again,
// what the first communicator of the process found.
func (c *Comm) load(getenv func(string) string) (v version, sound bool, err error) {
	if c.settings.reload != reloadOff {
		return loadVersion(c.settings, getenv, c.log)
	}
	return firsts.of(c.settings, getenv, c.log)
}

// prepare makes a version ready to decide by.
func (c *Comm) prepare(v version) (*inForce, error) {
	e := v.engine
	if e == nil {
		e = &policy.Engine{}
	}
	f := &inForce{version: v, view: e.For(policy.Comm{
		Nodes: c.info.Nodes, Ranks: c.info.Ranks, NVLDomains: c.info.NVLDomains, UncheckedAllGather: c.info.UncheckedAllGather,
	})}
	watchConditions(f.view, c.log)
	c.sayUnchecked(f.view)
	if c.settings.logDecisions {
		f.decisions = newDecisionLog(c.log, e)
	}
	if c.info.Host != nil {
		var err error
		if f.attached, err = c.info.Host.Attach(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// retire ends a version that this communicator uses no more.
func (c *Comm) retire(f *inForce) {
	if f.decisions != nil {
		f.decisions.sumUp()
	}
	if c.info.Host != nil {
		c.info.Host.Detach(f.attached)
	}
}

// start says what the communicator starts on.
func (c *Comm) start() {
	e, view := c.now.engine, c.now.view
	switch {
	case e == nil:
		c.log.Infof("%s %s: no policy, NCCL decides", Version, c.info)
	case view.Empty():
		c.log.Infof("%s %s: %s (version %s), NCCL decides", Version, c.info, nothingFor(e, view), e.Digest)
	default:
		c.log.Infof("%s %s: %s, version %s", Version, c.info, contents(e), e.Digest)
	}
	if e != nil && (c.info.Constants || c.info.ConstantsLost) {
		constants := e.Constants()
		n := plural(len(constants), "tuning constant", "tuning constants")
		switch {
		case len(constants) == 0:
		case c.info.ConstantsLost:
			c.log.Infof("%s: %s of %s not set: this NCCL sets its own after the tuner's, as 2.31 and later do", c.info, n, e.Model.Name)
		default:
			c.constants = constants
			c.log.Infof("%s: %s of NCCL's own replaced, as %s says", c.info, n, e.Model.Name)
		}
	}
	if view.Empty() && c.live == nil {
		c.retire(c.now)
		c.now = nil
	}
}

// watchConditions says which rows cannot be what they were meant to be: those whose
// condition fails, and those for a machine that is not known.
func watchConditions(view *policy.EngineView, log Log) {
	rows := view.Rows()
	if rows == nil || log.Emit == nil {
		return // each row is reported once in a process, so to somebody who listens
	}
	if n := rows.WithoutTopology(); n > 0 {
		log.Warnf("%s for this communicator by the machine's topology, which is not known: without effect", plural(n, "row is", "rows are"))
	}
	rows.ReportConditions(func(p policy.Problem) { log.Warnf("%s", p) })
}

// contents names what an engine decides by.
func contents(e *policy.Engine) string {
	var parts []string
	if e.Policy != nil {
		parts = append(parts, fmt.Sprintf("policy %s, %s", e.Policy.File, plural(len(e.Policy.Rules), "row", "rows")))
	}
	if e.Model != nil {
		parts = append(parts, "model "+e.Model.Name)
	}
	return strings.Join(parts, ", ")
}

// nothingFor says why neither rows nor model are for a communicator.
func nothingFor(e *policy.Engine, view *policy.EngineView) string {
	var parts []string
	if e.Policy != nil {
		parts = append(parts, fmt.Sprintf("no row of %s is for it", e.Policy.File))
	}
	if e.Model != nil {
		parts = append(parts, fmt.Sprintf("the model %s is silent (%s)", e.Model.Name, view.ModelSilence()))
	}
	return strings.Join(parts, ", ")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// leave ends the part in the agreement of the ranks.
func (c *Comm) leave() {
	if c.live != nil {
		c.live.close()
	}
	if c.rendezvous != nil {
		c.rendezvous.release()
		c.rendezvous = nil
	}
}

// Close says what came of the decisions, where they are logged, and returns when
// nothing of the plugin's runs any more on the communicator's account: after a few
// milliseconds, or about a second if the ranks' store hangs.
func (c *Comm) Close() {
	c.leave()
	if c.live != nil {
		c.now = c.live.member.Snapshot().(*inForce)
	}
	if c.now != nil {
		c.retire(c.now)
		c.now = nil
	}
	waitForGarbage()
}

// Idle reports that Decide never decides anything.
func (c *Comm) Idle() bool { return c.now == nil }

// Attached is what the host keeps beside the version in force.
func (c *Comm) Attached() any { return c.now.attached }

// Constants lists what to write into NCCL's tuning constants, at init.
func (c *Comm) Constants() []model.Constant { return c.constants }

// Decide answers one query; see policy.EngineView.Decide.
func (c *Comm) Decide(q policy.Query) policy.Decision {
	a := c.now.view.Decide(q)
	if c.now.decisions != nil {
		c.now.decisions.add(q, a)
	}
	if c.live != nil {
		c.known.add(q)
	}
	return a.Decision
}
