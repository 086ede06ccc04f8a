package record

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// The lines of release 0.2.0, and of 0.1.0 ("NCCL's choice", "NCCL offers").
var (
	oldStart = regexp.MustCompile(
		`^([0-9]+\.[0-9.]+) communicator(?: (0x[0-9a-f]+))?(?: "(?:[^"\\]|\\.)*")? of (\d{1,9}) ranks? on (\d{1,9}) ` +
			`nodes? \((?:NCCL [0-9.]+, )?ABI v\d+\)`)
	oldDecision = regexp.MustCompile(
		`^(?:communicator (0x[0-9a-f]+): )?(\w+) (\w+), (\d{1,20}) pipelined: (.*), decided by (.*?)\s*$`)
	oldChoice = regexp.MustCompile(
		`^(?:NCCL's (?:default|choice)|([A-Za-z_]+)/([A-Za-z0-9]+))(?: (\d{1,20}) ch)?(?:,| instead |$)`)
	oldAvailable = regexp.MustCompile(
		`^(?:communicator 0x[0-9a-f]+: )?(?:available in NCCL|NCCL offers) for (\w+): (.*?)\s*$`)
	oldNoEffect = regexp.MustCompile(
		`^(?:.*: )?([0-9]+ rows? (?:is|are) for (?:some|other) releases of NCCL, .*: without effect)`)
)

// readOld reads what follows the prefix.
func readOld(text string) (Event, error) {
	if m := oldNoEffect.FindStringSubmatch(text); m != nil {
		return &NoEffect{Why: NoEffectRelease, Is: m[1]}, nil
	}
	if m := oldStart.FindStringSubmatch(text); m != nil {
		s := &Start{Library: m[1], ID: m[2]}
		s.Ranks, _ = strconv.Atoi(m[3])
		s.Nodes, _ = strconv.Atoi(m[4])
		return s, nil
	}
	if m := oldDecision.FindStringSubmatch(text); m != nil {
		return decisionOf(m)
	}
	if m := oldAvailable.FindStringSubmatch(text); m != nil {
		a := &Available{}
		var err error
		if a.Coll, err = nccl.Colls.Parse(m[1]); err != nil {
			return nil, nil
		}
		for name := range strings.SplitSeq(m[2], ", ") {
			if c, err := parseCell(name); err == nil {
				a.Cells = append(a.Cells, c)
			}
		}
		if len(a.Cells) > 0 {
			return a, nil
		}
	}
	return nil, nil
}

// decisionOf takes a match of oldDecision.
func decisionOf(m []string) (Event, error) {
	d := newDecision()
	d.ID, d.By = m[1], m[6]
	var err error
	if d.Coll, err = nccl.Colls.Parse(m[2]); err != nil {
		return nil, err
	}
	if d.Bytes, err = nccl.ParseBytes(m[3]); err != nil {
		return nil, err
	}
	if d.PipeOps, err = strconv.Atoi(m[4]); err != nil {
		return nil, err
	}
	c := oldChoice.FindStringSubmatch(m[5])
	if c == nil {
		return nil, fmt.Errorf("%s is not a choice (needed: ALGORITHM/PROTOCOL or NCCL's default)", wording.Quote(m[5]))
	}
	if c[1] != "" {
		if d.Cell, err = nccl.ParseCell(c[1], c[2]); err != nil {
			return nil, err
		}
	}
	if c[3] != "" {
		if d.Channels, err = strconv.Atoi(c[3]); err != nil {
			return nil, err
		}
	}
	return d, nil
}
