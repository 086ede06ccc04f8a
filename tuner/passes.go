package tuner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// passes are a communicator's versions where a program runs over all its sizes again and again (nccl-tests' -N), under
// another version in each pass: NCCL_TUNER_PASSES.
//
// All ranks make the same calls, and which pass a call is in follows from the calls alone. So the ranks agree without
// a word. A pass begins with the first query of fewer bytes than the query before. Queries before the first pass are
// the program's warm-up, which the version of the first pass decides: nccl-tests up to 2.16.7 and rccl-tests warm up
// at the largest and then the smallest size, nccl-tests from 2.16.8 on at all sizes in turn. Queries for another
// collective than the first one asked about begin no pass.
type passes struct {
	comm  *Communicator
	names []string
	of    []*snapshot // by pass
	after *snapshot   // the default, once all are over

	n     int // the pass; 0: the warm-up
	asked bool
	last  nccl.Call // for the collective that passes go by
}

// DefaultPass is the name of a pass that is left to NCCL.
const DefaultPass = policyfile.DefaultPass

// openPasses prepares what NCCL_TUNER_PASSES names.
func (c *Communicator) openPasses() error {
	s := c.settings
	if s.files.Deterministic {
		return fmt.Errorf("%s is refused under %s=1: passes under different policies change the last bits of sums "+
			"(unset one of both)", EnvPasses, EnvDeterministic)
	}
	if c.info.ABI == nccl.ABINoCosts && s.envChooses {
		return fmt.Errorf("%s: NCCL_ALGO or NCCL_PROTO is set, and this NCCL does not tell what they allow (unset "+
			"them)", EnvPasses)
	}
	loaded, err := c.plugin.loader.LoadPasses(policyfile.Named{Variable: EnvPasses, Path: s.passes}, s.files, c.log)
	if err != nil {
		return err
	}
	made := map[*policyfile.Version]*snapshot{}
	prepared := func(v *policyfile.Version) *snapshot {
		if made[v] == nil {
			made[v] = c.newSnapshot(v, "")
		}
		return made[v]
	}
	p := &passes{comm: c, after: prepared(policyfile.None)}
	var meanings []string
	for _, pass := range loaded {
		p.names, p.of = append(p.names, pass.Name), append(p.of, prepared(pass.Version))
		meanings = append(meanings, pass.EffectDigest())
	}
	c.passes = p
	c.logStart(record.Start{Passes: len(p.of), Policy: s.passes,
		Version: shortDigest(agree.DigestOf([]byte(strings.Join(meanings, "\n"))))})
	return nil
}

// shortDigest is a digest as lines of the log have it.
func shortDigest(digest string) string { return fmt.Sprintf("%.12s", digest) }

// now is what decides.
func (p *passes) now() *snapshot {
	if p.n > len(p.of) {
		return p.after
	}
	return p.of[max(p.n, 1)-1]
}

// log logs an answer to a query.
func (p *passes) log(q policy.Query, a policy.Answer) {
	if p.n <= len(p.of) {
		s := p.now()
		d := telemetry.DecisionOf(s.Engine(), q, a)
		d.ID, d.Pass = p.comm.info.identity(), p.n
		d.Asks, d.Available = s.view.Asks(q, a)
		p.comm.log.Event(telemetry.Info, &d)
	}
}

// follow begins the next pass if a call is its first. It sees each call whose bytes are not those of the call before.
// NCCL runs nothing after a query in which it has nothing available.
func (p *passes) follow(q policy.Query) {
	c, has := q.Call, slices.ContainsFunc(q.Costs.Micros, func(us float32) bool { return us >= 0 })
	if !has || p.asked && c.Coll != p.last.Coll {
		return
	}
	if fewer := p.asked && c.Bytes < p.last.Bytes; fewer && p.n <= len(p.of) {
		p.n++
		p.logPass()
	}
	p.asked, p.last = true, c
}

func (p *passes) logPass() {
	if p.n > len(p.of) {
		p.comm.log.Warnf("%s: all %d passes of %s are over, and calls go on: NCCL decides", p.comm.info, len(p.of),
			p.comm.settings.passes)
		return
	}
	p.comm.log.Event(telemetry.Info, &record.Pass{ID: p.comm.info.identity(), N: p.n, Of: len(p.of),
		Policy: p.names[p.n-1], Version: shortDigest(p.now().EffectDigest())})
}
