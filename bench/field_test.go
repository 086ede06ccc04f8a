package bench

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// What came of files as people have them, where they are at hand.
func TestFilesAsPeopleHaveThem(t *testing.T) {
	const field = "../../shared/field"
	if files, _ := filepath.Glob(filepath.Join(field, "*")); len(files) == 0 {
		t.Skipf("SKIPPED: there is no %s", field)
	}
	allReduce := nccl.CollAllReduce
	two := nccl.Comm{Nodes: 2, Ranks: 2}
	nvls := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoNVLS, Proto: Unknown}}
	oneNode := Options{Comm: nccl.Comm{Nodes: 1, Ranks: 8}}
	for file, c := range map[string]struct {
		opts           Options
		kept, rejected int
		want           string // of the samples, each kind once
	}{
		"cloudai-csv/report.csv":                    {Options{}, 2, 0, "1x8 -"},
		"graph-and-eager/default.log":               {Options{}, 16, 0, "1x8 - -t 1 -g 8 -n 100 -w 50"},
		"graph-and-eager/all_reduce_ring_ll128.log": {Options{Default: true}, 16, 0, "1x8 - -t 1 -g 8 -n 100 -w 50 -G 10"},
		"nodes-not-hosts/gb200.log":                 {oneNode, 6, 0, "1x8 - -t 1 -g 1 -n 20 -w 1"},
		"nodes-not-hosts/all_reduce_ring_ll128.log": {Options{}, 6, 0,
			"2x4 -  -t 1 -g 1 -n 20 -w 1 NCCL_ALGO=Ring? NCCL_PROTO=LL128? ring+ll128?"},
		"op-column/opmix.csv":                {Options{}, 0, 3, ""},
		"prefixed-lines/kubectl-prefix.log":  {Options{Coll: &allReduce}, 6, 0, "2x1 - -t 1 -g 1 -n 20 -w 5"},
		"prefixed-lines/md.md":               {Options{Coll: &allReduce, Comm: two}, 3, 0, "2x1 -"},
		"prefixed-lines/ompi4-timestamp.log": {Options{Coll: &allReduce}, 6, 0, "2x1 - -t 1 -g 1 -n 20 -w 5"},
		"prefixed-lines/skypilot.log":        {Options{Coll: &allReduce}, 6, 0, "2x1 - -t 1 -g 1 -n 20 -w 5"},
		"rccl-builtin-tuner/run.log":         {Options{}, 4, 0, "1x2 tree/ll 8 ch forced -t 1 -g 1 -n 100 -w 50"},
		"rccl-reporter/reporter-list.json":   {Options{}, 3, 0, "8 ranks on 0 nodes -"},
		"rccl-reporter/reporter.csv":         {Options{}, 2, 0, "2x8 -"},
		"stale-variables/a-prompts.log": {Options{}, 8, 0,
			"2x1 -  -t 1 -g 1 -n 20 -w 5 NCCL_ALGO=Ring? NCCL_PROTO=LL?; 2x1 - -t 1 -g 1 -n 20 -w 5"},
		"stale-variables/b-oneshot.log": {Options{}, 8, 0,
			"2x1 -  -t 1 -g 1 -n 20 -w 5 NCCL_ALGO=Tree? NCCL_PROTO=LL?; 2x1 - -t 1 -g 1 -n 20 -w 5"},
		"stale-variables/d-labels.log": {Options{Coll: &allReduce}, 8, 0,
			"2x1 -  -t 1 -g 1 -n 20 -w 5 NCCL_ALGO=Ring? NCCL_PROTO=LL128?; 2x1 - -t 1 -g 1 -n 20 -w 5"},
		"switched-off-by-environment/a.log":            {Options{}, 8, 0, "1x8 - -t 1 -g 8 -n 20 -w 5"},
		"switched-off-by-environment/b.log":            {Options{}, 8, 0, "1x8 - -t 1 -g 8 -n 20 -w 5 NCCL_NVLS_ENABLE=0"},
		"tag-inside-row/openmpi4.log":                  {Options{Coll: &allReduce}, 6, 0, "2x1 - -t 1 -g 1 -n 20 -w 5"},
		"words-in-file-names/no-nvls.log":              {Options{Coll: &allReduce}, 4, 0, "1x2 -  -t 1 -g 8 -n 20 -w 5 nvls?"},
		"algorithm-alone/nvls.log":                     {Options{Config: &nvls}, 6, 0, "1x4 nvls/simple forced -t 1 -g 4 -n 20 -w 5"},
		"device-list-cut/rack.md":                      {Options{}, 12, 0, "72 ranks on 0 nodes -; 144 ranks on 0 nodes -"},
		"manifest-above/mpijob.log":                    {Options{}, 6, 0, "2x4 -  -t 1 -g 1 -n 20 -w 5 NCCL_ALGO=Tree? NCCL_PROTO=LL128?"},
		"names-that-tell/all_reduce_collnet_sharp.out": {Options{}, 6, 0, "1x4 -  -t 1 -g 4 -n 20 -w 5 collnet+sharp?"},
		"network-variables/default-qps1.log": {Options{}, 6, 0,
			"2x4 - -t 1 -g 1 -n 20 -w 5 NCCL_IB_QPS_PER_CONNECTION=1?"},
		"network-variables/trace-crossnic1.out": {Options{}, 6, 0,
			"2x4 - -t 1 -g 1 -n 20 -w 5 FI_MR_CACHE_MONITOR=userfaultfd? NCCL_CROSS_NIC=1?"},
		"one-name-two-hosts/sparks.log": {Options{}, 6, 0, "2 ranks on 0 nodes - -t 1 -g 1 -n 20 -w 5"},
		"rccl-direct-access/ring-ll.log": {Options{}, 6, 0,
			"1x8 -  -t 1 -g 1 -n 20 -w 5 RCCL_DDA_ENABLE=?"},
		"rccl-direct-access/ring-ll-off.log": {Options{}, 6, 0, "1x8 ring/ll forced -t 1 -g 1 -n 20 -w 5 RCCL_DDA_ENABLE=0"},
		"rccl-reporter/mpi.csv":              {Options{}, 6, 0, "2x8 -"},
		"runs-apart/no-mpi-g1.log":           {Options{Comm: two}, 0, 12, ""},
		"runs-apart/srun-labels.out":         {Options{}, 12, 0, "1x4 - -t 1 -g 4 -n 20 -w 5"},
		"tag-inside-row/hydra.log":           {Options{}, 6, 0, "2x4 tree/ll -t 1 -g 1 -n 20 -w 5; 2x4 tree/ll128 -t 1 -g 1 -n 20 -w 5; 2x4 ring/simple -t 1 -g 1 -n 20 -w 5"},
		"words-in-file-names/spark-ring-4node.log": {Options{Coll: &allReduce, Default: true}, 4, 0,
			"1x2 - -t 1 -g 8 -n 20 -w 5"},
	} {
		r, err := readFile(filepath.Join(field, file), c.opts)
		if err != nil {
			t.Error(err)
			continue
		}
		var kinds []string
		for _, s := range r.Samples {
			kind := fmt.Sprintf("%s %s", s.Comm, s.Config)
			if s.Selection != SelectionDefault {
				kind += " " + selections[s.Selection]
			}
			if s.Setup != nil {
				kind = strings.TrimSpace(strings.TrimSpace(kind+" "+s.Setup.Options) + " " + s.Setup.Variables)
			}
			if n := len(kinds); n == 0 || kinds[n-1] != kind {
				kinds = append(kinds, kind)
			}
		}
		if len(r.Samples) != c.kept || r.NumRejected() != c.rejected || strings.Join(kinds, "; ") != c.want {
			t.Errorf("%s: kept %d, rejected %v, %q; want %d, %d, %q", file, len(r.Samples), r.Rejected, kinds, c.kept,
				c.rejected, c.want)
		}
	}
}
