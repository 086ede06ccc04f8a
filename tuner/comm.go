package tuner

import (
	"fmt"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
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
}

func (c CommInfo) String() string {
	id := ""
	if c.ID != 0 {
		id = fmt.Sprintf(" %#x", c.ID)
	}
	return fmt.Sprintf("communicator%s of %d ranks on %s (ABI v%d)", id, c.Ranks, plural(c.Nodes, "node", "nodes"), c.ABI)
}

// Comm answers for one communicator. NCCL calls it from one thread at a time.
type Comm struct {
	log       Log
	view      *policy.EngineView
	constants []policy.Constant
	// decisions, if not nil, gets each decision as text.
	decisions *decisionLog
}

// Open prepares what decides for a communicator. Without anything, it returns a Comm
// that is Idle and never decides; with NCCL_TUNER_STRICT=1 that is an error. What is
// wrong has been logged then. Close ends what Open began.
func Open(info CommInfo, getenv func(string) string, log Log) (*Comm, error) {
	settings, ok := readSettings(getenv, log)
	c := &Comm{log: log}
	e, err := loadEngine(settings, getenv, log)
	switch {
	case err != nil:
		return nil, err
	case settings.strict && !ok:
		return nil, errUnusable
	case e == nil:
		log.Infof("%s %s: no policy, NCCL decides", Version, info)
		return c, nil
	case info.Ranks < 1 || info.Nodes < 1:
		log.Warnf("%s: not a communicator, NCCL decides", info)
		return c, nil
	}
	if info.Constants {
		if c.constants = e.Constants(); len(c.constants) > 0 {
			log.Infof("%s: %s of NCCL's own replaced, as %s says", info, plural(len(c.constants), "tuning constant", "tuning constants"), e.Model.Name)
		}
	}
	if info.ABI == 2 && settings.envChooses {
		// Later ABIs mark what NCCL_ALGO and NCCL_PROTO exclude as unavailable.
		log.Infof("%s %s: NCCL_ALGO or NCCL_PROTO is set and this NCCL does not tell what they allow, NCCL decides", Version, info)
		return c, nil
	}
	view := e.For(policy.Comm{Nodes: info.Nodes, Ranks: info.Ranks, NVLDomains: info.NVLDomains})
	watchConditions(view, log)
	if view.Empty() {
		log.Infof("%s %s: %s (version %s), NCCL decides", Version, info, nothingFor(e, view), e.Digest)
		return c, nil
	}
	log.Infof("%s %s: %s, version %s", Version, info, contents(e), e.Digest)
	c.view = view
	if settings.logDecisions {
		c.decisions = newDecisionLog(log, e)
	}
	return c, nil
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

// Close says what came of the decisions, where they are logged, and waits until
// nothing of the plugin's runs any more on the communicator's account: at most the few
// milliseconds after a file was read.
func (c *Comm) Close() {
	if c.decisions != nil {
		c.decisions.sumUp()
	}
	waitForGarbage()
}

// Idle reports that Decide never decides anything.
func (c *Comm) Idle() bool { return c.view == nil }

// Constants lists what to write into NCCL's tuning constants, at init.
func (c *Comm) Constants() []policy.Constant { return c.constants }

// Decide answers one query; see policy.EngineView.Decide.
func (c *Comm) Decide(q policy.Query) policy.Decision {
	a := c.view.Decide(q)
	if c.decisions != nil {
		c.decisions.add(q, a)
	}
	return a.Decision
}
