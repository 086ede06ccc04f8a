package report

import (
	"fmt"
	"html"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// The page shows where another configuration is the fastest on more nodes; without several numbers of nodes it says
// nothing of that.
func TestPageComparesNumbersOfNodes(t *testing.T) {
	sweep := "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,selection,time_us\n"
	for size := 1 << 20; size <= 16<<20; size *= 2 {
		for nodes, times := range map[int][2]int{2: {60, 70}, 4: {75, 60}} {
			sweep += fmt.Sprintf("allreduce,%d,,,,%d,%d,default,100\nallreduce,%[1]d,ring,ll128,32,%[2]d,%[3]d,forced,%[4]d\n"+
				"allreduce,%[1]d,ring,ll128,16,%[2]d,%[3]d,forced,%[5]d\n", size, nodes, 8*nodes, times[0], times[1])
		}
	}
	page := html.UnescapeString(string(written(t, fitted(t, testlib.File(t, "sweep.csv", sweep)))))
	for _, want := range []string{"Where numbers of nodes chose differently", "<th scope=\"row\">allreduce 4x8</th>" +
		"<td>1MiB - 16MiB</td><td>ring/ll128 32 ch (2x8)</td><td>ring/ll128 16 ch</td><td class=\"n\">25.0 %</td>"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	if page := string(written(t, fitted(t, smallSweep))); strings.Contains(page, "chose differently") {
		t.Error("the page compares one number of nodes")
	}
}
