package sweep

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/bench/compare"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// disturbance is a way in which a machine does not hold still, as in policy/fit/noise_test.go.
type disturbance struct {
	name  string
	noise float64
	// tails is the share of times that take 30 % longer, and badStarts that of starts.
	tails, badStarts float64
	// step is the change of all times from some start on, and once that of one start.
	step, once float64
	draws      float64 // what each start draws for each configuration and size
	found      float64 // share of changes of 3 % at one size of eleven that a proof finds at least
}

var disturbances = []disturbance{
	{name: "0.3 %", noise: 0.003},
	{name: "1 %", noise: 0.01, found: 0.95},
	{name: "2 %", noise: 0.02},
	{name: "5 %", noise: 0.05},
	{name: "1 %, 5 % of times +30 %", noise: 0.01, tails: 0.05, found: 0.9},
	{name: "1 %, 5 % of starts +30 %", noise: 0.01, badStarts: 0.05, found: 0.95},
	{name: "1 %, one step of 10 %", noise: 0.01, step: 0.1, found: 0.95},
	{name: "1 %, one start +30 %", noise: 0.01, once: 0.3, found: 0.95},
	{name: "1 %, each start draws 1 %", noise: 0.01, draws: 0.01, found: 0.3},
}

// proof plays the starts of a proof in which the policy changes times by a factor.
func (d disturbance) proof(batch *Batch, seed uint64, change func(bytes uint64) float64) (p Proof) {
	rng := rand.New(rand.NewPCG(seed, 78))
	from, when := 1+rng.IntN(len(batch.Starts)), rng.IntN(len(batch.Starts))
	for n, start := range batch.Starts {
		factor := 1.0
		if rng.Float64() < d.badStarts {
			factor *= 1.3
		}
		if n >= from {
			factor *= 1 + d.step
		}
		if n == when {
			factor *= 1 + d.once
		}
		type drawn struct {
			policy string
			bytes  uint64
		}
		draws := map[drawn]float64{}
		for k, pass := range start.Passes {
			for i, b := range start.Sizes {
				at := drawn{pass.Policy, b}
				if _, is := draws[at]; !is {
					draws[at] = d.draws * rng.NormFloat64()
				}
				us := 20 * math.Sqrt(float64(b)/65536) * factor * math.Exp(d.noise*rng.NormFloat64()+draws[at])
				if rng.Float64() < d.tails {
					us *= 1.3
				}
				s := bench.Sample{Call: nccl.Call{Coll: start.Key.Coll, Bytes: b}, Comm: start.Key.Comm, DType: "float",
					RedOp: "sum", Config: fit.ByDefault, Micros: us, Start: 1, Pass: k + 1,
					Source: fmt.Sprintf("logs/%d.log:%d", n, 100*k+i)}
				if pass.Policy == "" {
					p.Before = append(p.Before, s)
				} else {
					s.Micros *= change(b)
					p.After = append(p.After, s)
				}
			}
		}
	}
	return p
}

// What a machine that is disturbed in nine ways makes of proofs: a policy without effect has a verdict in at most 5 of
// 100, and a change of 3 % is found in at least 95 of 100 where times vary by 1 %. Starts that draw something for each
// size hide it at one size alone, and show it in the mean of all.
func TestProofUnderNoise(t *testing.T) {
	proofs, first := uint64(150), uint64(1)
	if os.Getenv("NIGHTLY") != "" {
		proofs, first = 2000, 10_000
	}
	if testing.Short() {
		proofs = 40
	}
	for _, c := range []struct {
		name  string
		sizes int
		mode  func(*Sweep)
		finds bool
	}{
		{"passes", 11, func(*Sweep) {}, true},
		{"passes, five sizes", 5, func(*Sweep) {}, false},
		{"one pass a start", 11, func(s *Sweep) { s.Single = "it has no -N" }, false},
		{"RCCL", 11, func(s *Sweep) {
			s.journal.of[subjectKey{Key: s.Keys[0]}] = []*Run{{found: &bench.Result{Samples: []bench.Sample{
				{Setup: &bench.Setup{NCCL: "RCCL 2.27.7"}}}}}}
		}, false},
	} {
		o := optionsOf(t, t.TempDir(), 0)
		o.Sizes, o.SizesNamed = nil, true
		for b := uint64(64 << 10); len(o.Sizes) < c.sizes; b *= 2 {
			o.Sizes = append(o.Sizes, b)
		}
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		c.mode(s)
		batch := s.proofBatch(0, o.Keys[:1], 15, "")
		s.Close()
		where := o.Sizes[c.sizes/2]
		for _, d := range disturbances {
			alarms, one, mean, covered, rows := 0.0, 0.0, 0.0, 0.0, 0.0
			for seed := first; seed < first+proofs; seed++ {
				p := d.proof(&batch, seed, func(uint64) float64 { return 1 })
				none := p.Compare()
				if none.Faster+none.Slower > 0 || none.Overall.Verdict == compare.Faster ||
					none.Overall.Verdict == compare.Slower {
					alarms++
				}
				for _, r := range none.Sections[0].Rows {
					if rows++; r.Low <= 1 && 1 <= r.High {
						covered++
					}
				}
				if !c.finds {
					continue
				}
				p = d.proof(&batch, seed+1e6, func(b uint64) float64 { return map[bool]float64{true: 0.97, false: 1}[b == where] })
				if p.Compare().Sections[0].Rows[c.sizes/2].Verdict == compare.Faster {
					one++
				}
				p = d.proof(&batch, seed+2e6, func(uint64) float64 { return 0.97 })
				if p.Compare().Overall.Verdict == compare.Faster {
					mean++
				}
			}
			n := float64(proofs)
			t.Logf("%-18s %-26s verdicts without effect %.4f, intervals that hold %.3f; 3 %% found at one size %.3f, in the "+
				"mean of all %.3f", c.name, d.name, alarms/n, covered/rows, one/n, mean/n)
			chance := 2 * math.Sqrt(0.05*0.95/n)
			if alarms/n > 0.05+chance || covered/rows < 0.93 {
				t.Errorf("%s, %s: %.4f of the proofs have a verdict, and %.3f of the intervals hold", c.name, d.name, alarms/n,
					covered/rows)
			}
			if c.finds && d.noise == 0.01 && (mean/n < 0.95-chance || one/n < d.found-chance) {
				t.Errorf("%s, %s: 3 %% are found in %.3f at one size, in %.3f in the mean", c.name, d.name, one/n, mean/n)
			}
		}
	}
}
