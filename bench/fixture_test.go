package bench

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

func readFile(path string, opts Options) (*Result, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Read(bytes.NewReader(text), path, opts)
}

// head is the start of a run as nccl-tests 2.18 prints it, ranks spread evenly
// over nodes.
func head(program string, nodes, perNode int) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"# nccl-tests version 2.18.3 nccl-headers=22902 nccl-library=22902\n# Collective test starting: %s\n", program)
	fmt.Fprintf(&b, "# nThread 1 nGpus 1 minBytes 1024 maxBytes 4096 step: 2(factor) warmup iters: 5 iters: 20 agg "+
		"iters: 1 validation: 1 graph: 0 unalign: 0\n#\n# Using devices\n")
	for i := range nodes * perNode {
		fmt.Fprintf(&b, "#  Rank %2d Group  0 Pid %6d on %10s device %2d [0000:%02x:00] Some GPU\n", i, 4000+i,
			fmt.Sprintf("node%d", i/perNode), i%perNode, i%perNode)
	}
	return b.String() + columnLines
}

const columnLines = `#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
`

// line is one row of floats: times of both halves in microseconds, busbw/algbw.
func line(size int, redop string, root int, out, in, factor float64) string {
	bw := func(us float64) float64 { return float64(size) / us / 1000 }
	return fmt.Sprintf("%12d  %12d  %8s  %6s  %6d  %7.2f  %6.2f  %6.2f  %6d  %7.2f  %6.2f  %6.2f  %6d\n",
		size, size/4, "float", redop, root, out, bw(out), bw(out)*factor, 0, in, bw(in), bw(in)*factor, 0)
}

func tail(wrong int) string {
	verdict := "OK"
	if wrong > 0 {
		verdict = "FAILED"
	}
	return fmt.Sprintf("# Out of bounds values : %d %s\n# Avg bus bandwidth    : 1.5\n#\n", wrong, verdict)
}
