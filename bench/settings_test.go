package bench

import (
	"fmt"
	"strings"
	"testing"
)

// The options that times depend on are told, each kind once, whatever the format.
func TestSettings(t *testing.T) {
	const head, row = "# nThread 1 nGpus %d minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 iters: %d agg " +
		"iters: %d validation: 1 graph: %d unalign: 0\n",
		"          64            16     float     sum      -1     9.31    0.01    0.01       0     9.28    0.01    " +
			"0.01       0\n"
	for _, c := range []struct{ text, want string }{
		{fmt.Sprintf(head, 8, 20, 1, 0) + row, "[-t 1 -g 8 -n 20 -w 5]"},
		{fmt.Sprintf(head, 8, 20, 1, 0) + row + fmt.Sprintf(head, 8, 20, 1, 0) + row +
			fmt.Sprintf(head, 8, 100, 10, 2) + row, "[-t 1 -g 8 -n 20 -w 5 -t 1 -g 8 -n 100 -w 5 -m 10 -G 2]"},
		{row, "[]"},
		{
			`{"version":3,"args":["all_reduce_perf"],"config":{"nthreads":2,"ngpus":4,"warmup_iters":5,"iterations":20,"aggregated_iterations":1,"graph":0},"results":[]}`, "[-t 2 -g 4 -n 20 -w 5]"},
	} {
		r, err := Read(strings.NewReader(c.text), "all_reduce.log", Options{})
		if err != nil || fmt.Sprint(r.Settings) != c.want {
			t.Errorf("%v %v, want %s", err, r, c.want)
		}
	}
}
