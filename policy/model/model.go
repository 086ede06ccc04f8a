package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/digest"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Model is a checked and compiled cost model. It does not change and is safe for any number of
// goroutines.
type Model struct {
	Name string // of the file, for messages
	File *File

	digest func() digest.Digest
	groups map[groupKey]*compiledGroup
	home   topo.Fingerprint // of the machine measured on, if that is known
}

type groupKey struct {
	coll         nccl.Coll
	nodes, ranks int
}

// compiledGroup holds the tables of a group, one value per size of the axis, with NaN where there is
// none.
type compiledGroup struct {
	file    *Group
	axis    []uint64
	octaves []float64 // log2 of axis

	curves   []compiledCurve
	byDef    lnTable // empty: not measured
	defaults []compiledDefault
	verdicts []compiledVerdict
}

type lnTable struct{ ln, sigma []float64 }

type compiledCurve struct {
	lnTable
	algo     nccl.Algo
	proto    nccl.Proto
	channels int
	floored  bool
	own      nccl.Range // of the sizes measured
	distrust []nccl.Range
}

type compiledDefault struct {
	bytes    uint64
	algo     nccl.Algo // -1: not known
	proto    nccl.Proto
	channels int
	lnMicros float64
}

// maxProblems is how many errors of one file are reported.
const maxProblems = 20

// Read compiles a model from the text of its file. The name is for messages only. An error
// lists all that is wrong, one "file: path: what" a line.
func Read(name string, text []byte) (*Model, error) {
	file := &File{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(file)
	if err != nil {
		if err := checkHead(name, text); err != nil {
			return nil, err
		}
		return nil, jsonError(name, text, err)
	}
	if err := file.checkHead(name); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%s: something follows the model", name)
	}
	return Compile(name, file)
}

// checkHead says whether a file that cannot be read is a cost model of this version at all, which
// says more than what is wrong with it as one.
func checkHead(name string, text []byte) error {
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return jsonError(name, text, err)
	}
	return (&File{Format: head.Format, Version: head.Version}).checkHead(name)
}

func (f *File) checkHead(name string) error {
	switch {
	case f.Format != Format:
		return fmt.Errorf("%s: format: %s is not a cost model (allowed: %q)", name, suggest.Quote(f.Format), Format)
	case f.Version != Version:
		return fmt.Errorf("%s: version: %d is not known (allowed: %d; fit the model anew with tunefit fit)", name, f.Version, Version)
	}
	return nil
}

func jsonError(name string, text []byte, err error) error {
	at := int64(-1)
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &mistyped):
		at = mistyped.Offset
		err = fmt.Errorf("%s: %s where a %s is needed", mistyped.Field, mistyped.Value, mistyped.Type)
	}
	if at < 0 || at > int64(len(text)) {
		return fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "json: "))
	}
	return fmt.Errorf("%s:%d: %w", name, 1+bytes.Count(text[:at], []byte("\n")), err)
}

// Compile checks a model and builds its tables. The file must not be changed afterwards.
func Compile(name string, file *File) (*Model, error) {
	m := &Model{Name: name, File: file, groups: map[groupKey]*compiledGroup{}}
	c := checker{name: name}
	c.topology(m)
	c.isTrue(file.MaxNodes >= 0 && file.MaxNodes <= 1<<24, "max_nodes", "%d (allowed: 0 to 16777216)", file.MaxNodes)
	for i := range file.Groups {
		path := fmt.Sprintf("groups[%d]", i)
		g, key := c.group(path, &file.Groups[i])
		c.isTrue(m.groups[key] == nil, path, "there is a group of %s on %d nodes with %d ranks already", key.coll, key.nodes, key.ranks)
		m.groups[key] = g
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	m.digest = sync.OnceValue(file.digest)
	return m, nil
}

// Digest is of all that decisions depend on. Two ranks with equal digests decide alike. It is made
// when first asked for: of a large model that takes longer than all else.
func (m *Model) Digest() digest.Digest { return m.digest() }

// digest leaves out what only people read. The kind of processor is part of it. Of the machine
// measured on, decisions depend on the fingerprint alone.
func (f *File) digest() digest.Digest {
	bare := *f
	bare.Provenance = Provenance{}
	if t := f.Provenance.Topology; t != nil {
		bare.Provenance.Topology = &Topology{Fingerprint: t.Fingerprint}
	}
	bare.Groups = slices.Clone(f.Groups)
	for i := range bare.Groups {
		bare.Groups[i].HeldOut = nil
	}
	text, err := json.Marshal(&bare)
	if err != nil {
		panic(err) // Compile has refused NaN and infinities
	}
	return digest.Of(append(text, runtime.GOARCH...))
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

func (c *checker) group(path string, f *Group) (*compiledGroup, groupKey) {
	g := &compiledGroup{file: f, axis: f.Axis}
	coll, ok := nccl.Colls.Named(f.Coll)
	if !ok {
		c.problem(path+".collective", "%v", nccl.Colls.Unknown(f.Coll, ""))
	}
	c.isTrue(f.Nodes >= 1 && f.Ranks >= 2 && f.Ranks >= f.Nodes && f.Ranks <= 1<<30, path, "%d nodes with %d ranks (allowed: at least 1 node, 2 ranks and a rank per node)", f.Nodes, f.Ranks)
	c.isTrue(f.Noise > 0 && f.Noise < 10, path+".noise", "%g (allowed: above 0, below 10)", f.Noise)
	for i, b := range f.Axis {
		switch {
		case b == 0 || i > 0 && b <= f.Axis[i-1]:
			c.problem(fmt.Sprintf("%s.axis[%d]", path, i), "%d does not ascend", b)
		case b >= nccl.MaxBytes:
			c.problem(fmt.Sprintf("%s.axis[%d]", path, i), "%d (allowed: below 2^50)", b)
		}
		g.octaves = append(g.octaves, math.Log2(float64(b)))
	}
	c.isTrue(len(f.Axis) > 0, path+".axis", "no sizes")
	if d := f.Default; d != nil {
		path := path + ".default"
		for i, p := range d.Measured {
			at := fmt.Sprintf("%s.measured[%d]", path, i)
			c.isTrue(p.Bytes > 0 && (i == 0 || p.Bytes > d.Measured[i-1].Bytes), at+".bytes", "%d does not ascend", p.Bytes)
			if n := len(f.Axis); n > 0 {
				c.isTrue(p.Bytes >= f.Axis[0] && p.Bytes <= f.Axis[n-1], at+".bytes", "%d (allowed: %d to %d, as in the axis)", p.Bytes, f.Axis[0], f.Axis[n-1])
			}
			def := compiledDefault{p.Bytes, -1, -1, p.Channels, math.Log(p.Micros)}
			if p.Algo != "" || p.Proto != "" {
				def.algo, def.proto = c.label(at, p.Algo, p.Proto)
			}
			c.isTrue(p.Micros > 0 && p.Micros < 1e15, at+".us", "%g (allowed: above 0)", p.Micros)
			c.isTrue(p.Channels >= 0 && p.Channels <= nccl.MaxChannels, at+".channels", "%d (allowed: 0 to %d)", p.Channels, nccl.MaxChannels)
			g.defaults = append(g.defaults, def)
		}
		if c.isTrue(len(d.Measured) > 0, path+".measured", "no sizes") {
			within := nccl.Range{Min: d.Measured[0].Bytes, Max: d.Measured[len(d.Measured)-1].Bytes}
			g.byDef = c.table(path, g, within, d.Micros, d.Sigma)
		}
	}
	c.verdicts(path, g, f.Verified)
	seen := map[curveKey]bool{}
	for i := range f.Families {
		c.family(fmt.Sprintf("%s.families[%d]", path, i), g, &f.Families[i], seen)
	}
	return g, groupKey{coll, f.Nodes, f.Ranks}
}

func (c *checker) label(path, algo, proto string) (nccl.Algo, nccl.Proto) {
	a, ok := nccl.Algos.Named(algo)
	if !ok {
		c.problem(path+".algorithm", "%v", nccl.Algos.Unknown(algo, ""))
	}
	p, ok := nccl.Protos.Named(proto)
	if !ok {
		c.problem(path+".protocol", "%v", nccl.Protos.Unknown(proto, ""))
	}
	return a, p
}

// curveKey is what a group has no two curves of.
type curveKey struct {
	algo     nccl.Algo
	proto    nccl.Proto
	channels int
}

func (c *checker) family(path string, g *compiledGroup, f *Family, seen map[curveKey]bool) {
	algo, proto := c.label(path, f.Algo, f.Proto)
	var distrust []nccl.Range
	for i, d := range f.Distrust {
		c.isTrue(d.Min <= d.Max, fmt.Sprintf("%s.distrust[%d]", path, i), "min_bytes %d is above max_bytes %d", d.Min, d.Max)
		distrust = append(distrust, nccl.Range{Min: d.Min, Max: d.Max})
	}
	for i, curve := range f.Curves {
		path := fmt.Sprintf("%s.curves[%d]", path, i)
		c.isTrue(curve.Channels >= 0 && curve.Channels <= nccl.MaxChannels, path+".channels", "%d (allowed: 0 to %d)", curve.Channels, nccl.MaxChannels)
		c.isTrue(curve.Min <= curve.Max, path, "min_bytes %d is above max_bytes %d", curve.Min, curve.Max)
		key := curveKey{algo, proto, curve.Channels}
		c.isTrue(!seen[key], path, "%s/%s with %d channels has a curve already", algo, proto, curve.Channels)
		seen[key] = true
		mc := compiledCurve{algo: algo, proto: proto, channels: curve.Channels, floored: curve.Floored, distrust: distrust, own: nccl.Range{Min: nccl.Inf, Max: 0}}
		mc.lnTable = c.table(path, g, nccl.Range{Min: curve.Min, Max: curve.Max}, curve.Micros, curve.Sigma)
		for k, m := range curve.Measured {
			if !(m[0] >= 1 && m[0] < nccl.MaxBytes) {
				c.problem(fmt.Sprintf("%s.measured[%d]", path, k), "%g is not a size", m[0])
				continue
			}
			mc.own = nccl.Range{Min: min(mc.own.Min, uint64(m[0])), Max: max(mc.own.Max, uint64(m[0]))}
		}
		g.curves = append(g.curves, mc)
	}
}

// table lays values for the sizes of the axis within a range over the whole axis.
func (c *checker) table(path string, g *compiledGroup, within nccl.Range, micros, sigma []float64) lnTable {
	t := lnTable{make([]float64, len(g.axis)), make([]float64, len(g.axis))}
	n := 0
	for i, b := range g.axis {
		t.ln[i], t.sigma[i] = math.NaN(), math.NaN()
		if !within.Contains(b) {
			continue
		}
		if n < len(micros) && n < len(sigma) {
			if !(micros[n] > 0 && micros[n] < 1e15) {
				c.problem(fmt.Sprintf("%s.us[%d]", path, n), "%g (allowed: above 0)", micros[n])
			}
			if !(sigma[n] > 0 && sigma[n] < 100) {
				c.problem(fmt.Sprintf("%s.sigma[%d]", path, n), "%g (allowed: above 0)", sigma[n])
			}
			t.ln[i], t.sigma[i] = math.Log(micros[n]), sigma[n]
		}
		n++
	}
	c.isTrue(n == len(micros) && n == len(sigma), path, "%d times and %d sigmas (needed: %d, one per size of the axis from %d to %d)",
		len(micros), len(sigma), n, within.Min, within.Max)
	return t
}
