package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"runtime"
)

// Policy is a checked and compiled policy file. It does not change.
type Policy struct {
	File  string
	Rules []Rule // in the file's order
	// Digest is of the rules' meaning: comments, spelling and blank lines do not
	// change it. Two ranks with equal digests decide alike.
	Digest Digest
	// NeverAsked counts the rules for operations that no tuner is asked about.
	NeverAsked int

	needsTopology bool
	kinds         commKinds
}

// Digest identifies the meaning of a policy: 128 bits of its SHA-256. The ranks' record
// of their first version has to fit into an inode, for a disk may be full. What conditions
// and models compute may differ between processors in the last bits, so the kind of
// processor is part of their meaning.
type Digest [16]byte

func digestOf(text []byte) Digest {
	sum := sha256.Sum256(text)
	return Digest(sum[:len(Digest{})])
}

// String returns the first 12 hexadecimal digits, enough to tell versions apart.
func (d Digest) String() string { return hex.EncodeToString(d[:6]) }

// Full returns all hexadecimal digits; String's are the first of them.
func (d Digest) Full() string { return hex.EncodeToString(d[:]) }

// ReadCSV compiles a policy from the text of a CSV file. The file's name is for
// messages only. An error is of type Problems and lists all that is wrong.
func ReadCSV(file string, text []byte) (*Policy, error) {
	rules, problems := readRules(file, text)
	if len(problems) > 0 {
		return nil, problems
	}
	p := &Policy{File: file, Rules: rules, Digest: digest(rules), kinds: commKinds{rows: map[Comm]*commRows{}, reported: map[*Condition]bool{}}}
	for _, r := range rules {
		if r.Coll == collNeverAsked {
			p.NeverAsked++
		} else if r.When != nil && r.When.topology {
			p.needsTopology = true
		}
	}
	return p, nil
}

// NeedsTopology reports whether a condition mentions topo: for a Comm without
// Topo, that row never matches.
func (p *Policy) NeedsTopology() bool { return p.needsTopology }

// conditionFollows stands where the next rule's collective would.
const conditionFollows = 1 << 63

func digest(rules []Rule) Digest {
	h := sha256.New()
	var text []byte // of one rule
	for _, r := range rules {
		if r.Coll == collNeverAsked {
			continue
		}
		text = text[:0]
		for _, n := range []uint64{
			uint64(r.Coll), r.Bytes.Min, r.Bytes.Max, r.BytesPerRank.Min, r.BytesPerRank.Max,
			uint64(r.Nodes), uint64(r.Ranks), uint64(r.RanksPerNode), uint64(r.PipeOps), uint64(r.RegBuff),
			uint64(r.Cells.algos), uint64(r.Cells.protos), uint64(r.Channels), r.ChunkBytes,
		} {
			text = binary.LittleEndian.AppendUint64(text, n)
		}
		if r.When != nil {
			text = append(binary.LittleEndian.AppendUint64(text, conditionFollows), r.When.normal...)
			text = append(append(text, runtime.GOARCH...), 0)
		}
		h.Write(text)
	}
	return Digest(h.Sum(nil)[:len(Digest{})])
}
