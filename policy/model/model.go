package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Model is a checked and compiled cost model. It does not change and is safe for any number of
// goroutines.
type Model struct {
	Name string // of the file, for messages
	File *File

	digest   func() identity.Digest
	groups   map[Key]*compiledSet
	releases nccl.Releases
}

// compiledSet is what is known of a collective on a communicator.
type compiledSet struct {
	*CurveSet
	sizes nccl.Range // of all that was measured

	curves   []compiledCurve
	defaults []compiledDefault
	// defaultCurve has the times of all defaults, whatever NCCL chose.
	defaultCurve curve
}

type compiledCurve struct {
	curve
	nccl.Config
	floored bool
}

type compiledDefault struct {
	nccl.Config // NoCell: not known
	bytes       uint64
	lnMicros    float64
}

// maxProblems is how many errors of one file are reported.
const maxProblems = 20

// Read compiles a model from the text of its file. The name is for messages only. An error
// lists all that is wrong, one "file: path: what" a line.
func Read(name string, text []byte) (*Model, error) {
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, wording.JSONErrorAt(name, text, err)
	}
	switch {
	case head.Format != Format:
		return nil, fmt.Errorf("%s: format: %s is not a cost model (allowed: %q)", name, wording.Quote(head.Format),
			Format)
	case head.Version != Version:
		return nil, fmt.Errorf("%s: version: %d is not known (allowed: %d; fit the model anew with tunefit fit)", name,
			head.Version, Version)
	}
	file := &File{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(file); err != nil {
		return nil, wording.JSONErrorAt(name, text, err)
	}
	return Compile(name, file)
}

// Compile checks a model and builds its curves. The file must not be changed afterwards.
func Compile(name string, file *File) (*Model, error) {
	m := &Model{Name: name, File: file, groups: map[Key]*compiledSet{}, releases: file.Provenance.Releases()}
	c := checker{name: name}
	c.topology(m)
	for i := range file.CurveSets {
		path := fmt.Sprintf("groups[%d]", i)
		g, key := c.group(path, &file.CurveSets[i])
		c.isTrue(m.groups[key] == nil, path, "there is a group of %s on %d nodes with %d ranks already", key.Coll,
			key.Nodes, key.Ranks)
		m.groups[key] = g
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	m.digest = sync.OnceValue(file.digest)
	return m, nil
}

// Digest covers all that decisions depend on. Two ranks with equal digests decide alike. It is computed on
// first use, since that takes longer than all else for a large model.
func (m *Model) Digest() identity.Digest { return m.digest() }

// digest leaves out what only people read. Of where the measurements come from, it covers the machine's fingerprint
// and the releases that the model is for. It also covers the kind of processor.
func (f *File) digest() identity.Digest {
	bare := *f
	bare.Provenance = Provenance{}
	if r := f.Provenance.Releases(); r != nccl.AnyRelease {
		bare.Provenance.NCCL = r.String()
	}
	if t := f.Provenance.Topology; t != nil {
		bare.Provenance.Topology = &topo.Machine{Fingerprint: t.Fingerprint}
	}
	bare.CurveSets = slices.Clone(f.CurveSets)
	for i := range bare.CurveSets {
		bare.CurveSets[i].HeldOut = nil
	}
	text, err := json.Marshal(&bare)
	if err != nil {
		panic(err) // Compile has refused NaN and infinities
	}
	return identity.DigestOf(append(text, runtime.GOARCH...))
}

type checker struct {
	name     string
	problems []string
}

func (c *checker) problem(path, format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf("%s: %s: %s", c.name, path, fmt.Sprintf(format, args...)))
}

func (c *checker) isTrue(ok bool, path, format string, args ...any) bool {
	if !ok {
		c.problem(path, format, args...)
	}
	return ok
}

func (c *checker) err() error {
	if len(c.problems) == 0 {
		return nil
	}
	if more := len(c.problems) - maxProblems; more > 0 {
		c.problems = append(c.problems[:maxProblems], fmt.Sprintf("%s: and %d more", c.name, more))
	}
	return errors.New(strings.Join(c.problems, "\n"))
}

func (c *checker) group(path string, f *CurveSet) (*compiledSet, Key) {
	g := &compiledSet{CurveSet: f, sizes: nccl.Range{Min: nccl.Inf}}
	if _, ok := nccl.Colls.Named(f.Coll); !ok {
		c.problem(path+".collective", "%v", nccl.Colls.Unknown(f.Coll, ""))
	}
	c.isTrue(f.Nodes >= 1 && f.Ranks >= 2 && f.Ranks >= f.Nodes && f.Ranks <= 1<<30, path,
		"%d nodes with %d ranks (allowed: at least 1 node, 2 ranks and a rank per node)", f.Nodes, f.Ranks)
	c.isTrue(f.Noise > 0 && f.Noise < 10, path+".noise", "%g (allowed: above 0, below 10)", f.Noise)
	for i := range f.Default {
		p, at := &f.Default[i], fmt.Sprintf("%s.default[%d]", path, i)
		c.point(at, g, &g.defaultCurve, float64(p.Bytes), p.Micros)
		if p.Algo != "" || p.Proto != "" {
			c.label(at, p.Algo, p.Proto)
		}
		c.channels(at, p.Channels)
		g.defaults = append(g.defaults, compiledDefault{p.Config(), p.Bytes, math.Log(p.Micros)})
	}
	c.verified(path, f.Verified)
	had := map[nccl.Config]bool{}
	for i := range f.Curves {
		c.curve(fmt.Sprintf("%s.curves[%d]", path, i), g, &f.Curves[i], had)
	}
	c.isTrue(g.sizes.Max > 0, path, "nothing was measured")
	if len(c.problems) == 0 {
		g.defaultCurve.join(f.Noise)
		for i := range g.curves {
			g.curves[i].join(f.Noise)
		}
	}
	return g, f.Key()
}

// point adds what was measured at a size to a curve.
func (c *checker) point(path string, g *compiledSet, to *curve, bytes, micros float64) {
	if !c.isTrue(bytes >= 1 && bytes < nccl.MaxBytes, path, "%g is not a size (allowed: 1 to 2^50)", bytes) {
		return
	}
	if n := len(to.octaves); !c.isTrue(n == 0 || log2(uint64(bytes)) > to.octaves[n-1], path,
		"%g bytes do not ascend", bytes) {
		return
	}
	if c.isTrue(micros > 0 && micros < 1e15, path, "%g us (allowed: above 0)", micros) {
		to.add(uint64(bytes), micros)
		g.sizes.Min, g.sizes.Max = min(g.sizes.Min, uint64(bytes)), max(g.sizes.Max, uint64(bytes))
	}
}

func (c *checker) channels(path string, n int) {
	c.isTrue(n >= 0 && n <= nccl.MaxChannels, path+".channels", "%d (allowed: 0 to %d)", n, nccl.MaxChannels)
}

func (c *checker) label(path, algo, proto string) {
	if _, ok := nccl.Algos.Named(algo); !ok {
		c.problem(path+".algorithm", "%v", nccl.Algos.Unknown(algo, ""))
	}
	if _, ok := nccl.Protos.Named(proto); !ok {
		c.problem(path+".protocol", "%v", nccl.Protos.Unknown(proto, ""))
	}
}

// curve adds a curve; had are the configurations of those before it.
func (c *checker) curve(path string, g *compiledSet, f *Curve, had map[nccl.Config]bool) {
	c.label(path, f.Algo, f.Proto)
	c.channels(path, f.Channels)
	compiled := compiledCurve{Config: f.Config(), floored: f.Floored}
	c.isTrue(!had[compiled.Config], path, "%s with %d channels has a curve already", compiled.Cell, f.Channels)
	had[compiled.Config] = true
	for k, m := range f.Measured {
		c.point(fmt.Sprintf("%s.measured[%d]", path, k), g, &compiled.curve, m[0], m[1])
	}
	g.curves = append(g.curves, compiled)
}
