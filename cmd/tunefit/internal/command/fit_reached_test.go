package command

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// scaled is a sweep of some ranks whose times are longer by a factor.
func scaled(t *testing.T, file, ranks string, factor float64) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testlib.Root, file))
	if os.IsNotExist(err) {
		t.Skipf("%s is not there", file)
	}
	in := csv.NewReader(strings.NewReader(string(text)))
	in.Comment = '#'
	rows, err := in.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	var out strings.Builder
	for i, r := range rows {
		if i > 0 && r[column["ranks"]] != ranks {
			continue
		}
		if us, err := strconv.ParseFloat(r[column["time_us"]], 64); err == nil {
			r[column["time_us"]] = strconv.FormatFloat(us*factor, 'f', 3, 64)
		}
		for _, derived := range []string{"algbw_gbps", "busbw_gbps"} {
			if at, ok := column[derived]; ok && i > 0 {
				r[at] = ""
			}
		}
		out.WriteString(strings.Join(r, ",") + "\n")
	}
	return testlib.File(t, "sweep.csv", out.String())
}

// Sound machines reach what their links allow, and are not called limited. One that is much slower is.
func TestReachedBandwidth(t *testing.T) {
	fourOf := func(name string) string {
		doc, err := topo.ReadFile(ready(name))
		if err != nil {
			t.Fatal(err)
		}
		if doc, err = doc.Only([]int{0, 1, 2, 3}); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := doc.Write(&out); err != nil {
			t.Fatal(err)
		}
		return testlib.File(t, "four.xml", out.String())
	}
	for _, c := range []struct{ sweep, ranks, topo, said string }{
		{"configs/sweeps/simulated-hgx-h100-1n.csv", "8", ready("dgx-h100.xml"),
			"allreduce 1x8: 405.4 GB/s at 1GiB; the links of NVLS allow 476"},
		{"configs/sweeps/simulated-hgx-h100-2n.csv", "16", ready("dgx-h100.xml"),
			"allgather 2x8: 278.6 GB/s at 1GiB; the links of NCCL's rings allow 384"},
		{"docs/measured/gb300-allreduce.csv", "4", ready("gb200-nvl72-tray.xml"),
			"allreduce 1x4: 683.9 GB/s at 8GiB; the links of NCCL's rings allow 720"},
		{"../shared/data/sweeps/h100x4_default.csv", "4", fourOf("dgx-h100.xml"), "the links of NCCL's rings allow 360"},
	} {
		t.Run(c.sweep, func(t *testing.T) {
			for factor, limited := range map[float64]bool{1: false, 7: true} {
				page := filepath.Join(t.TempDir(), "page.html")
				args := []string{"fit", scaled(t, c.sweep, c.ranks, factor), "--topo", c.topo, "--report", page}
				var outputs []string
				for _, also := range [][]string{nil, {"--json", "--force"}} {
					_, out, said := testkit.RunAlone(append(args, also...)...)
					outputs = append(outputs, out)
					if !limited && !strings.Contains(out, c.said) {
						t.Errorf("no %q in %s%s", c.said, out, said)
					}
				}
				text, _ := os.ReadFile(page)
				if len(text) > 0 {
					outputs = append(outputs, string(text))
				}
				for _, out := range outputs {
					const verdict = "not the choice of an algorithm limits it; see tunefit doctor --machine"
					if strings.Contains(out, verdict) != limited || !strings.Contains(out, "the links of N") {
						t.Errorf("factor %v: %s", factor, out)
					}
				}
			}
		})
	}
	t.Run("small sizes", func(t *testing.T) {
		file := testlib.File(t, "s.csv", "collective,size_bytes,nodes,ranks,selection,time_us\n"+
			"allreduce,1048576,1,8,default,100\n")
		if _, out, _ := testkit.RunAlone("fit", file, "--topo", ready("dgx-h100.xml")); strings.Contains(out, "bus bandwidth") {
			t.Errorf("%s", out)
		}
	})
}
