package policy

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/when"
)

// Policy is a checked and compiled policy file. It does not change.
type Policy struct {
	File  string
	Rules []Rule // in the file's order
	// Digest is of the rules' meaning: comments, spelling and blank lines do not change it. Two
	// ranks with equal digests decide alike.
	Digest Digest
	// NeverAsked counts the rules for operations that no tuner is asked about.
	NeverAsked int

	needsTopology bool
	whenColumn    int // of the file, from 1; 0: none
	kinds         commKinds
}

// Digest identifies the meaning of a policy: 128 bits of its SHA-256. The ranks' record of their
// first version has to fit into an inode, for a disk may be full. What conditions and models
// compute may differ between processors in the last bits, so the kind of processor is part of their
// meaning.
type Digest [16]byte

func digestOf(text []byte) Digest {
	sum := sha256.Sum256(text)
	return Digest(sum[:len(Digest{})])
}

// String returns the first 12 hexadecimal digits, enough to tell versions apart.
func (d Digest) String() string { return hex.EncodeToString(d[:6]) }

// Full returns all hexadecimal digits; String's are the first of them.
func (d Digest) Full() string { return hex.EncodeToString(d[:]) }

// ReadCSV compiles a policy from the text of a CSV file. The file's name is for messages only. An
// error is of type Problems and lists all that is wrong.
func ReadCSV(file string, text []byte) (*Policy, error) {
	read := readFile(file, text)
	if len(read.problems) > 0 {
		return nil, read.problems
	}
	p := &Policy{File: file, Rules: read.rules, Digest: digest(read.rules), whenColumn: read.columnNumber("when"),
		kinds: commKinds{rows: map[Comm]*commRows{}, reported: map[*when.Condition]bool{}}}
	for _, r := range p.Rules {
		if r.Coll == collNeverAsked {
			p.NeverAsked++
		} else if r.When != nil && r.When.NeedsTopology {
			p.needsTopology = true
		}
	}
	return p, nil
}

// NeedsTopology reports whether a condition mentions topo: for a Comm without Topo, that row never
// matches.
func (p *Policy) NeedsTopology() bool { return p.needsTopology }

func digest(rules []Rule) Digest {
	h := sha256.New()
	var text []byte // of one rule
	for i := range rules {
		if rules[i].Coll != collNeverAsked {
			text = rules[i].appendMeaning(text[:0])
			h.Write(text)
		}
	}
	return Digest(h.Sum(nil)[:len(Digest{})])
}
