package policy

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

func testTopology() *topo.Machine {
	return &topo.Machine{Fingerprint: sameKind, Summary: topo.Summary{GPUs: 8, Hosts: 1, CPUs: 2, SM: 90,
		Arch: "x86_64", NVSwitch: true, IntraBW: 360, MinPairBW: 360, Intra: "NVL", NVLinkBW: 360, NICs: 8, NICBW: 50, NetBW: 400, GPUNIC: "PXB", GPUNICBW: 48, GDR: true}}
}

// testTopologies are unknown, one with and one without NVSwitches.
var testTopologies = []*topo.Machine{nil, testTopology(), {Fingerprint: otherKind, Summary: topo.Summary{GPUs: 3,
	Hosts: 1, CPUs: 1, SM: 7, Arch: "arm64", IntraBW: 2.5, Intra: "PHB", GPUNIC: "DIS"}}}

// plainCondition says whether a condition holds, by closures over Go's own arithmetic: no expr, no
// types, no folding.
type plainCondition func(q *Query, c Comm) bool

// broken is what a plain condition panics with where it cannot be evaluated.
type broken struct{}

type (
	number func(q *Query, c Comm) float64
	truth  func(q *Query, c Comm) bool
)

func calculate(operator string, v, w float64) float64 {
	if w == 0 && (operator == "/" || operator == "%") {
		panic(broken{})
	}
	switch operator {
	case "+":
		return v + w
	case "-":
		return v - w
	case "*":
		return v * w
	case "/":
		return v / w
	case "%":
		return math.Mod(v, w)
	case "max":
		return max(v, w)
	}
	return min(v, w)
}

// conditionPool hands out new conditions and ones that it has handed out before, so that rows share
// some.
type conditionPool struct {
	texts []string
	holds []plainCondition
}

func (p *conditionPool) pick(rng dice) (string, plainCondition) {
	if len(p.texts) > 0 && rng.IntN(3) == 0 {
		i := rng.IntN(len(p.texts))
		return p.texts[i], p.holds[i]
	}
	g := conditionWriter{rng: rng}
	text, holds := g.truth(3)
	needsTopo, needsWhole := strings.Contains(text, "topo."), strings.Contains(text, "ranks_per_node")
	needsDomains := strings.Contains(text, "nvl_domains")
	condition := func(q *Query, c Comm) (yes bool) {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(broken); !ok {
					panic(r)
				}
				yes = false
			}
		}()
		if needsTopo && c.Topo == nil || needsWhole && c.Ranks%c.Nodes != 0 || needsDomains && c.NVLDomains == 0 {
			return false
		}
		return holds(q, c)
	}
	p.texts, p.holds = append(p.texts, text), append(p.holds, condition)
	return text, condition
}

type conditionWriter struct{ rng dice }

func (g conditionWriter) truth(depth int) (string, truth) {
	choice := g.rng.IntN(9)
	if depth == 0 {
		choice = 5 + g.rng.IntN(4)
	}
	switch choice {
	case 0, 1, 2:
		a, x := g.truth(depth - 1)
		b, y := g.truth(depth - 1)
		if choice == 0 {
			return "(" + a + ") " + g.either("and", "&&") + " (" + b + ")", func(q *Query, c Comm) bool {
				return x(q, c) && y(q, c)
			}
		}
		return "(" + a + ")" + g.either(" or ", "||") + "(" + b + ")", func(q *Query, c Comm) bool {
			return x(q, c) || y(q, c)
		}
	case 3:
		a, x := g.truth(depth - 1)
		return g.either("not ", "!") + "(" + a + ")", func(q *Query, c Comm) bool { return !x(q, c) }
	case 4:
		a, x := g.truth(depth - 1)
		b, y := g.truth(depth - 1)
		n, z := g.truth(depth - 1)
		return fmt.Sprintf("(%s) ? (%s) : (%s)", a, b, n), func(q *Query, c Comm) bool {
			if x(q, c) {
				return y(q, c)
			}
			return z(q, c)
		}
	case 5:
		coll := nccl.Coll(g.rng.IntN(nccl.NumColls))
		spelling := g.either(coll.String(), strings.ToUpper(coll.String()))
		switch g.rng.IntN(3) {
		case 0:
			return fmt.Sprintf("coll != %q", spelling), func(q *Query, c Comm) bool { return q.Coll != coll }
		case 1:
			return fmt.Sprintf("coll in ['reduce', %q]", spelling), func(q *Query, c Comm) bool {
				return q.Coll == coll || q.Coll == nccl.CollReduce
			}
		}
		return fmt.Sprintf("%q == coll", spelling), func(q *Query, c Comm) bool { return q.Coll == coll }
	case 6:
		switch g.rng.IntN(4) {
		case 2:
			return "topo.fingerprint == '" + otherKind + "'", func(q *Query, c Comm) bool {
				return c.Topo.Fingerprint == otherKind
			}
		case 0:
			return "topo.nvswitch", func(q *Query, c Comm) bool { return c.Topo.Summary.NVSwitch }
		case 1:
			return "topo.intra == 'nvl'", func(q *Query, c Comm) bool { return c.Topo.Summary.Intra == "NVL" }
		}
		return "topo.gpu_nic not in ['PXB', 'PIX']", func(q *Query, c Comm) bool {
			return c.Topo.Summary.GPUNIC != "PXB" && c.Topo.Summary.GPUNIC != "PIX"
		}
	case 7:
		low := g.rng.IntN(8)
		high := low + g.rng.IntN(8)
		a, x := g.number(depth - 1)
		from, to := float64(low), float64(high)
		if g.rng.IntN(2) == 0 {
			return fmt.Sprintf("%d <= (%s) < %d", low, a, high), func(q *Query, c Comm) bool {
				return from <= x(q, c) && x(q, c) < to
			}
		}
		return fmt.Sprintf("(%s) in %d..%d", a, low, high), func(q *Query, c Comm) bool {
			return from <= x(q, c) && x(q, c) <= to
		}
	}
	a, x := g.number(depth - 1)
	b, y := g.number(depth - 1)
	operator := g.either("<", "<=", ">", ">=", "==", "!=")
	return fmt.Sprintf("(%s) %s (%s)", a, operator, b), func(q *Query, c Comm) bool {
		order := cmp.Compare(x(q, c), y(q, c))
		switch operator {
		case "<":
			return order < 0
		case "<=":
			return order <= 0
		case ">":
			return order > 0
		case ">=":
			return order >= 0
		case "==":
			return order == 0
		}
		return order != 0
	}
}

func (g conditionWriter) number(depth int) (string, number) {
	if depth > 0 && g.rng.IntN(2) == 0 {
		a, x := g.number(depth - 1)
		b, y := g.number(depth - 1)
		operator := g.either("+", "-", "*", "/", "%", "max", "min")
		result := func(q *Query, c Comm) float64 { return calculate(operator, x(q, c), y(q, c)) }
		if operator == "max" || operator == "min" {
			return fmt.Sprintf("%s(%s, %s)", operator, a, b), result
		}
		return fmt.Sprintf("(%s) %s (%s)", a, operator, b), result
	}
	switch g.rng.IntN(11) {
	case 0:
		return "bytes", func(q *Query, c Comm) float64 { return float64(q.Bytes) }
	case 1:
		return "bytes_per_rank", func(q *Query, c Comm) float64 { return float64(q.Bytes / uint64(c.Ranks)) }
	case 2:
		return "pipe_ops", func(q *Query, c Comm) float64 { return float64(q.PipeOps) }
	case 3:
		return "nodes", func(q *Query, c Comm) float64 { return float64(c.Nodes) }
	case 4:
		return "ranks", func(q *Query, c Comm) float64 { return float64(c.Ranks) }
	case 5:
		return "ranks_per_node", func(q *Query, c Comm) float64 { return float64(c.Ranks / c.Nodes) }
	case 6:
		return "nvl_domains", func(q *Query, c Comm) float64 { return float64(c.NVLDomains) }
	case 7:
		return "topo.gpus", func(q *Query, c Comm) float64 { return float64(c.Topo.Summary.GPUs) }
	case 8:
		return "topo.intra_bw", func(q *Query, c Comm) float64 { return c.Topo.Summary.IntraBW }
	case 9:
		n := g.rng.IntN(3)
		return fmt.Sprintf("%d*KiB/256", n), func(q *Query, c Comm) float64 { return float64(4 * n) }
	}
	n := g.rng.IntN(40)
	return fmt.Sprint(n), func(q *Query, c Comm) float64 { return float64(n) }
}

func (g conditionWriter) either(values ...string) string { return values[g.rng.IntN(len(values))] }

// rapidDice draws from rapid, which then finds the smallest case that fails.
type rapidDice struct{ t *rapid.T }

func (d rapidDice) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "n") }

func (d rapidDice) Uint64N(n uint64) uint64 { return rapid.Uint64Range(0, n-1).Draw(d.t, "n") }

// What holds for every policy, communicator and call: the decision is that of a plain scan; a rank
// that reads the file anew and is asked other things first decides alike; and a call that no row
// decides is left as it is.
func TestEveryPolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rapidDice{t}
		rows, text := randomFile(rng, 1+rng.IntN(12))
		p, err := ReadCSV("random.csv", []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		again, err := ReadCSV("again.csv", []byte(text))
		if err != nil || again.Digest != p.Digest {
			t.Fatalf("another digest, or %v, of\n%s", err, text)
		}
		for range 4 {
			comm, q := randomCall(rng)
			compare(t, p.For(comm), rows, q, comm)
			first := p.For(comm).Decide(q)
			other := again.For(comm)
			_, before := randomCall(rng)
			other.Decide(before)
			if second := other.Decide(q); second != first {
				t.Fatalf("%+v on %+v: %+v, then %+v by\n%s", q, comm, first, second, text)
			}
			if first.Rule < 0 && (first.Write || first.Channels != 0 || first.ChunkBytes != 0) {
				t.Fatalf("%+v on %+v: no row decides, yet %+v", q, comm, first)
			}
			if first.Channels < 0 || first.Channels > nccl.MaxChannels {
				t.Fatalf("%d channels", first.Channels)
			}
		}
	})
}
