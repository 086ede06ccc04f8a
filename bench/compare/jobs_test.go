package compare

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// jobOf is a profile of a few sizes whose times are slower by factors, shifted as a whole and noisy.
func jobOf(rng *rand.Rand, noise float64, slower ...float64) *profile.Profile {
	p := &profile.Profile{}
	whole := math.Exp(noise * rng.NormFloat64())
	for i, f := range slower {
		e := profile.Entry{
			Key: profile.Key{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1 << (16 + 2*i)},
				Comm: nccl.Comm{Nodes: 2, Ranks: 16}, Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}},
			Calls: 10, StepCalls: 5, Micros: 50 * float64(i+1) * f * whole * math.Exp(noise*rng.NormFloat64()),
		}
		p.Entries = append(p.Entries, e)
	}
	return p
}

func jobsOf(rng *rand.Rand, n int, noise float64, slower ...float64) (all []*profile.Profile) {
	for range n {
		all = append(all, jobOf(rng, noise, slower...))
	}
	return all
}

// One profile a side proves nothing, however large the difference; the sum of a step is each side's own calls and
// times.
func TestJobsWithoutATest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	before, after := jobsOf(rng, 1, 0, 1, 1, 1), jobsOf(rng, 1, 0, 1, 1, 2)
	after[0].Entries[0].StepCalls = 10
	// Two configurations at one size: the mean by calls, and what runs most.
	other := after[0].Entries[1]
	other.Algo, other.Micros, other.StepCalls, other.Calls = nccl.AlgoTree, 400, 15, 30
	after[0].Entries = append(after[0].Entries, other)
	// What one side only has, what has no size and what has no time.
	after[0].Entries = append(after[0].Entries,
		profile.Entry{Key: profile.Key{Call: nccl.Call{Coll: nccl.CollReduce, Bytes: 8},
			Comm: nccl.Comm{Nodes: 1, Ranks: 8}}, Calls: 2, StepCalls: 1, Micros: 1000},
		profile.Entry{Key: profile.Key{Call: nccl.Call{Coll: nccl.CollReduce}, Comm: nccl.Comm{Nodes: 1, Ranks: 8}},
			Calls: 2, StepCalls: 1})
	table := Jobs(before, after, Options{})
	if sizes, mean := table.Slower(); sizes != 0 || mean || table.Tested != 0 || len(table.Groups) != 1 {
		t.Fatalf("%+v", table)
	}
	rows := table.Groups[0].Rows
	if r := rows[1]; math.Abs(r.After.Micros-(5*100+15*400)/20.0) > 1e-9 || r.After.Calls != 20 || r.Before.Calls != 5 {
		t.Errorf("%+v", r)
	}
	wantBefore, wantAfter := 5*50.0+5*100+5*150, 10*50.0+5*100+15*400+5*300
	if m := table.Overall; math.Abs(m.Before-wantBefore) > 1e-6 || math.Abs(m.After-wantAfter) > 1e-6 ||
		m.Sizes != 3 || m.Verdict != Unknown {
		t.Errorf("%+v, want %v -> %v", m, wantBefore, wantAfter)
	}
	var text bytes.Buffer
	if err := table.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before: 3 times of 1 job profile\n", "allreduce 2x8\n", " 5>10 ",
		"ring/ll -> tree/ll", "\na step: 1.5 ms of communication -> 8.5 ms, 5.667\n",
		"note: differences without a test: ",
		"note: the calls of a step differ at 2 of 3 sizes: its sum is of different work\n",
		"note: after, the sum is 89 % of"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	if strings.Contains(text.String(), "~") || strings.Contains(text.String(), "geo") {
		t.Errorf("a verdict or a mean:\n%s", &text)
	}
	j, err := table.MarshalJSON()
	if err != nil || strings.Contains(string(j), "geomean\":") || strings.Contains(string(j), `"low"`) ||
		!strings.Contains(string(j), `"step":{"before_us":`) {
		t.Errorf("%v %s", err, j)
	}
	// Without the calls of a step there is no sum.
	before[0].Entries[0].StepCalls = 0
	table = Jobs(before, after, Options{})
	text.Reset()
	if err := table.WriteText(&text); err != nil || strings.Contains(text.String(), "\na step: ") ||
		!strings.Contains(text.String(), "note: no sum of a step: not all profiles tell the calls of a step") {
		t.Errorf("%v %s", err, &text)
	}
	if j, err := table.MarshalJSON(); err != nil || strings.Contains(string(j), `"step"`) {
		t.Errorf("%v %s", err, j)
	}
}

// Several profiles a side are tested as logs are: runs that are shifted as a whole are no change, and a change is
// found.
func TestJobsTested(t *testing.T) {
	const tables = 400
	rng := rand.New(rand.NewPCG(2, 2))
	wrong, found := 0, 0
	for range tables {
		alike := Jobs(jobsOf(rng, 3, 0.01, 1, 1, 1, 1, 1), jobsOf(rng, 3, 0.01, 1, 1, 1, 1, 1), Options{})
		slower, _ := alike.Count(Slower)
		faster, _ := alike.Count(Faster)
		if slower+faster > 0 || alike.Overall.Verdict != Unproven {
			wrong++
		}
		changed := Jobs(jobsOf(rng, 3, 0.005, 1, 1, 1, 1, 1), jobsOf(rng, 3, 0.005, 1, 1, 1, 1.05, 1.1), Options{})
		if changed.Overall.Verdict == Slower {
			found++
		}
	}
	if wrong > tables*7/100 || found < tables*9/10 {
		t.Errorf("%d of %d tables of jobs that are alike have a verdict, %d of %d slower steps are found", wrong,
			tables, found, tables)
	}
	t.Logf("%d wrong, %d found of %d", wrong, found, tables)
}
