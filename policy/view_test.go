package policy

import (
	"fmt"
	"sync"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Communicators of one kind share the rows that are for them, not whom they report to. What a policy keeps does not grow
// with the kinds.
func TestViewsOfAKind(t *testing.T) {
	p, err := ReadCSV("p.csv", []byte("allreduce,0,1024,ring,ll,-1,1,8,-1,-1\nallreduce,0,1024,tree,ll,-1,2,16,-1,-1\n"))
	if err != nil {
		t.Fatal(err)
	}
	one, two := Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8}}, Comm{Comm: nccl.Comm{Nodes: 2, Ranks: 16}}
	var waits sync.WaitGroup
	views := make([]*View, 8)
	for i := range views {
		waits.Go(func() {
			views[i] = p.For([]Comm{one, two}[i%2])
			views[i].report = func(Problem) {}
		})
	}
	waits.Wait()
	for i, v := range views {
		if len(v.rules) != 1 || v.rules[0] != int32(i%2) || &v.rules[0] != &views[i%2].rules[0] {
			t.Errorf("view %d has the rows %v, and the first of its kind %v", i, v.rules, views[i%2].rules)
		}
	}
	if v := p.For(one); v == views[0] || v.report != nil {
		t.Error("a later view reports to whom an earlier one does")
	}
	for i := range 100 {
		named := one
		named.Name = fmt.Sprint(i)
		if v := p.For(named); len(v.rules) != 1 || len(p.views) > mostKinds {
			t.Fatalf("%d kinds: the rows %v, %d views kept", i, v.rules, len(p.views))
		}
	}
}
