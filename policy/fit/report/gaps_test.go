package report

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// Each advice is given where it is true, and not where little is otherwise.
func TestEachAdvice(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	vary := 0.001 // how far times are apart
	// rows are three times of a configuration at each of five sizes, from the first on.
	rows := func(config string, micros float64, first int, source string) (text string) {
		for i := first; i < 5; i++ {
			for range 3 {
				us := micros * float64(int(1)<<i) * (1 + vary*(dice.Float64()-0.5))
				text += fmt.Sprintf("allreduce,%d,%s,%.4f,%s\n", 1<<(20+i), config, us, source)
			}
		}
		return text
	}
	own := func(first int) string { return rows("tree,simple,16,2,16,default", 100, first, "a") }
	ring := func(channels int, micros float64, first int) string {
		return rows(fmt.Sprintf("ring,simple,%d,2,16,forced", channels), micros, first, "a")
	}
	all := func() string { return ring(4, 95, 0) + ring(8, 90, 0) + ring(16, 60, 0) + ring(32, 80, 0) }
	good := own(0) + all()
	vary = 0.8
	restless := own(0) + all()
	vary = 0.001
	// renamed is what ring/simple does under another name, in so much of its time.
	renamed := func(factor float64) (text string) {
		for channels, micros := range map[int]float64{4: 95, 8: 90, 16: 60, 32: 80} {
			text += rows(fmt.Sprintf("tree,ll,%d,2,16,forced", channels), micros*factor, 0, "a")
		}
		return text
	}
	for kind, c := range map[GapKind]struct{ is, not string }{
		DefaultMissing: {all(), good},
		DefaultGaps:    {own(2) + all(), good},
		NothingElse:    {own(0), good},
		Restless:       {restless, good},
		Contradictory: {good + rows("ring,simple,16,2,16,forced", 84, 0, "b"),
			good + rows("ring,simple,16,2,16,forced", 61, 0, "b")},
		Edge:      {own(0) + ring(8, 90, 0) + ring(16, 60, 0), good},
		Aliases:   {good + renamed(1), good + renamed(1.1)},
		OneConfig: {own(0) + ring(16, 60, 0), good},
		OneSize:   {own(4) + ring(16, 60, 4) + ring(8, 90, 4), good},
	} {
		for text, want := range map[string]bool{c.is: true, c.not: false} {
			if got := slices.Contains(gapsOf(t, text), kind); got != want {
				t.Errorf("%q: given %v, want %v, of\n%s", advice[kind], got, want, text)
			}
		}
	}
}

// gapsOf are the kinds of gaps in a sweep.
func gapsOf(t *testing.T, rows string) (kinds []GapKind) {
	t.Helper()
	const head = "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,selection,time_us,source\n"
	r, err := bench.Read(strings.NewReader(head+rows), "sweep.csv", bench.Options{})
	if err != nil || r.NumRejected() > 0 {
		t.Fatalf("%v, %v", err, r.Rejected)
	}
	pool := fit.NewPool()
	for i := range r.Samples {
		pool.Add(&r.Samples[i])
	}
	_, report := fit.Fit(pool.Set(), fit.Options{})
	for _, g := range Gaps(report) {
		kinds = append(kinds, g.Kind)
	}
	return kinds
}

// What follows from what is known of a machine, or of several logs.
func TestAdviceOfGroups(t *testing.T) {
	key := fit.Key{Coll: nccl.CollAllReduce, Comm: nccl.Comm{Nodes: 1, Ranks: 8}}
	pat := nccl.Cell{Algo: nccl.AlgoPAT, Proto: nccl.ProtoSimple}
	for kind, g := range map[GapKind]*fit.Group{
		NotOffered: {Key: key, NotOffered: []nccl.Cell{pat}},
		Varying:    {Key: key, Contradictions: []fit.Contradiction{{Factor: 2, Apart: 3, Common: 4}}},
	} {
		is := func(s NextStep) bool { return s.Do == advice[kind] && s.Where == key.String() }
		if steps := Steps(groupGaps(&fit.GroupReport{Group: g})); !slices.ContainsFunc(steps, is) {
			t.Errorf("%q is missing in %+v", advice[kind], steps)
		}
		if slices.ContainsFunc(Steps(groupGaps(&fit.GroupReport{Group: &fit.Group{Key: key}})), is) {
			t.Errorf("%q is given without a reason", advice[kind])
		}
	}
	if all := Steps(Gaps(&fit.Report{})); len(all) != 0 {
		t.Errorf("nothing can be done about what was not measured: %+v", all)
	}
}
