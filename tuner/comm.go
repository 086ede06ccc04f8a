package tuner

import (
	"errors"
	"fmt"

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
	log  Log
	view *policy.View
	// decisions, if not nil, gets each decision as text.
	decisions *decisionLog
}

// Open prepares a communicator's policy. Without one, it returns a Comm that is
// Idle and never decides; with NCCL_TUNER_STRICT=1 that is an error. What is wrong
// has been logged then. Close ends what Open began.
func Open(info CommInfo, getenv func(string) string, log Log) (*Comm, error) {
	settings, ok := readSettings(getenv, log)
	c := &Comm{log: log}
	p := loadPolicy(settings, log)
	switch {
	case settings.strict && (!ok || p == nil):
		return nil, errors.New(EnvStrict + "=1 and there is no policy that can be used")
	case p == nil:
		log.Infof("%s %s: no policy, NCCL decides", Version, info)
		return c, nil
	case info.ABI == 2 && settings.envChooses:
		// Later ABIs mark what NCCL_ALGO and NCCL_PROTO exclude as unavailable.
		log.Infof("%s %s: NCCL_ALGO or NCCL_PROTO is set and this NCCL does not tell what they allow, NCCL decides", Version, info)
		return c, nil
	case info.Ranks < 1 || info.Nodes < 1:
		log.Warnf("%s: not a communicator, NCCL decides", info)
		return c, nil
	}
	view := p.For(policy.Comm{Nodes: info.Nodes, Ranks: info.Ranks})
	if view.Empty() {
		log.Infof("%s %s: no row of %s (version %s) is for it, NCCL decides", Version, info, p.File, p.Digest)
		return c, nil
	}
	log.Infof("%s %s: policy %s, %s, version %s", Version, info, p.File, plural(len(p.Rules), "row", "rows"), p.Digest)
	c.view = view
	if settings.logDecisions {
		c.decisions = &decisionLog{log: log, policy: p}
	}
	return c, nil
}

// loadPolicy returns nil where there is no usable policy, and says why.
func loadPolicy(s settings, log Log) *policy.Policy {
	if s.configFile == "" {
		if s.strict {
			log.Warnf("%s=1 and %s is not set", EnvStrict, EnvConfigFile)
		}
		return nil
	}
	v := files.load(s.configFile)
	var problems policy.Problems
	switch {
	case v.err == nil && len(v.policy.Rules) == 0:
		v.reportOnce(log, func() { log.Warnf("%s has no rows", s.configFile) })
		return nil
	case v.err == nil:
		v.reportOnce(log, func() { infoNeverAsked(s.configFile, v.policy.NeverAsked, log) })
	case errors.As(v.err, &problems):
		if !v.reportOnce(log, func() { warnProblems(s.configFile, problems, log) }) {
			log.Warnf("%s: still has %s, reported before; no policy is used", s.configFile, plural(len(problems), "problem", "problems"))
		}
	default:
		log.Warnf("%s=%s: %v; no policy is used", EnvConfigFile, s.configFile, v.err)
	}
	return v.policy
}

func infoNeverAsked(file string, rows int, log Log) {
	if rows > 0 {
		log.Infof("%s: %s for operations that NCCL asks no tuner about, without effect", file, plural(rows, "row is", "rows are"))
	}
}

// maxWarned keeps a file of the wrong kind from flooding a job's log.
const maxWarned = 100

func warnProblems(file string, problems policy.Problems, log Log) {
	log.Warnf("%s has %s; no policy is used:", file, plural(len(problems), "problem", "problems"))
	for i, p := range problems {
		if i == maxWarned {
			log.Warnf("... and %d more; tunefit show %s prints them all", len(problems)-i, file)
			return
		}
		log.Warnf("%s", p)
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Close waits until nothing of the plugin's runs any more on the communicator's
// account: at most the few milliseconds after a file was read.
func (c *Comm) Close() { files.wait() }

// Idle reports that Decide never decides anything.
func (c *Comm) Idle() bool { return c.view == nil }

// Decide answers one query; see policy.View.Decide.
func (c *Comm) Decide(q policy.Query) policy.Decision {
	d := c.view.Decide(q)
	if c.decisions != nil {
		c.decisions.add(q, d)
	}
	return d
}
