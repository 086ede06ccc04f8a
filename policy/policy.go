package policy

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/when"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Policy is a checked and compiled policy file. It does not change.
type Policy struct {
	File  string
	Rules []Rule // in the file's order
	// Digest is of the rules' meaning: comments, spelling and blank lines do not change it. Two
	// ranks with equal digests decide alike.
	Digest identity.Digest
	// NeverAsked counts the rules for operations that no tuner is asked about.
	NeverAsked int

	needsTopology bool
	asksKind      bool // a condition has the machine's fingerprint
	asksRelease   bool
	asksName      bool
	header        header // of the file
	appendedFile  string // the file of the rules from appendedFrom on
	appendedFrom  int
	reported      sync.Map // the conditions that were reported to fail
	viewing       sync.Mutex
	views         map[Comm]*View // of kinds of communicators, guarded by viewing
}

// ReadCSV compiles a policy from the text of a CSV file. The file's name is for messages only. An
// error is of type Problems and lists all that is wrong.
func ReadCSV(file string, text []byte) (*Policy, error) {
	read := readFile(file, text)
	if len(read.problems) > 0 {
		return nil, read.problems
	}
	return complete(&Policy{File: file, Rules: read.rules, header: read.header, appendedFrom: len(read.rules)}), nil
}

// With returns a policy of p's rules and, after them, another one's. A nil p has none.
func (p *Policy) With(more *Policy) *Policy {
	if p == nil {
		return more
	}
	return complete(&Policy{File: p.File, Rules: slices.Concat(p.Rules, more.Rules), header: p.header,
		appendedFile: more.File, appendedFrom: len(p.Rules)})
}

// complete sets what follows from a policy's rules.
func complete(p *Policy) *Policy {
	p.Digest = digestOf(p.Rules)
	for _, r := range p.Rules {
		if r.Coll == collNeverAsked {
			p.NeverAsked++
			continue
		}
		p.needsTopology = p.needsTopology || r.When.Asks(when.Topology)
		p.asksKind = p.asksKind || r.When.Asks(when.Fingerprint)
		p.asksRelease = p.asksRelease || r.NCCL != nccl.AnyRelease || r.When.Asks(when.NCCL)
		p.asksName = p.asksName || r.Name != "" || r.When.Asks(when.Name)
	}
	return p
}

// Place says where a rule stands: policy.csv:12.
func (p *Policy) Place(rule int) string {
	file := p.File
	if rule >= p.appendedFrom {
		file = p.appendedFile
	}
	return fmt.Sprintf("%s:%d", file, p.Rules[rule].Line)
}

// AsksRelease reports whether a row depends on the release of NCCL.
func (p *Policy) AsksRelease() bool { return p.asksRelease }

// AsksName reports whether a row depends on the communicator's name.
func (p *Policy) AsksName() bool { return p.asksName }

// NeedsTopology reports whether a condition mentions topo: for a Comm without Topo, that row never
// matches.
func (p *Policy) NeedsTopology() bool { return p.needsTopology }

// ofMachine is what conditions may use of the machine, for a digest.
func (p *Policy) ofMachine(here *topo.Machine) []byte {
	switch {
	case here == nil:
		return []byte("not known")
	case p.asksKind:
		return fmt.Appendf(nil, "%+v", *here)
	}
	return fmt.Appendf(nil, "%+v", here.Summary)
}

func digestOf(rules []Rule) identity.Digest {
	h := sha256.New()
	var text []byte // of one rule
	for i := range rules {
		if rules[i].Coll != collNeverAsked {
			text = rules[i].appendEffect(text[:0])
			h.Write(text)
		}
	}
	return identity.Digest(h.Sum(nil)[:len(identity.Digest{})])
}

// Problem is one thing wrong in a policy file.
type Problem struct {
	File   string
	Line   int // from 1
	Column int // the field's number in its row, from 1; 0 when the whole line is meant
	Text   string
}

// String has the form file:line:column: text.
func (p Problem) String() string {
	if p.Column == 0 {
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
}

// Problems is every problem of one file, in the order of the file. As an error it means that
// nothing of the file is used.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
