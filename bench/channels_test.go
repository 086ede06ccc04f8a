package bench

import (
	"fmt"
	"strings"
	"testing"
)

// Counts of channels that rise with the size are NCCL's own, whatever a table says of who chose them, and so are the
// others with one count at each size. A sweep over channels has several, and what our library or NCCL's variables asked
// for was asked for.
func TestOwnChannelsInTables(t *testing.T) {
	for name, test := range map[string]struct {
		rows string // algorithm, bytes, channels, selection
		want string // selections
	}{
		"they rise":          {"ring 1024 2 forced; ring 2048 2 forced; ring 4096 8 forced", "own own own"},
		"nobody is named":    {"ring 1024 2 ; ring 2048 8 ", "own own"},
		"they do not change": {"ring 1024 2 forced; ring 2048 2 forced", "forced forced"},
		"they fall":          {"ring 1024 8 forced; ring 2048 2 forced", "forced forced"},
		"several at a size":  {"ring 1024 2 forced; ring 2048 2 forced; ring 2048 8 forced", "forced forced forced"},
		"others are told": {"ring 1024 2 forced; ring 2048 8 forced; tree 1024 4 forced; tree 2048 4 forced; " +
			"nvls 1024 4 own_channels", "own own forced forced own"},
		"others do not change": {"ring 1024 2 forced; ring 2048 8 forced; tree 1024 4 forced; tree 2048 4 forced",
			"own own own own"},
		"others are a sweep": {"ring 1024 2 forced; ring 2048 8 forced; tree 1024 4 forced; tree 1024 8 forced; " +
			"nvls 1024 4 forced", "own own forced forced forced"},
		"some are told":    {"ring 1024 2 forced; ring 2048 8 own_channels", "forced own"},
		"some are unknown": {"ring 1024 0 forced; ring 2048 8 forced", "forced forced"},
		"our library":      {"ring 1024 2 forced ours; ring 2048 8 forced ours", "forced forced"},
		"of at least four": {"ring 1024 2 forced bounded; ring 2048 4 forced bounded", "forced forced"},
		"another tuner":    {"ring 1024 2 forced other; ring 2048 4 forced other", "own own"},
		"NCCL's choice":    {"ring 1024 2 default; ring 2048 8 default", "default default"},
	} {
		text := "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,selection,tuner,min_nchannels,time_us\n"
		for row := range strings.SplitSeq(test.rows, "; ") {
			f := append(strings.Split(row, " "), "")
			setup := map[string]string{"ours": "nccl-tuner-go 0.2.0,", "other": "x.so,", "bounded": ",4", "": ","}[f[4]]
			text += fmt.Sprintf("allreduce,%s,%s,simple,%s,1,8,%s,%s,10\n", f[1], f[0], f[2], f[3], setup)
		}
		r, err := Read(strings.NewReader(text), "x.csv", Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for i := range r.Samples {
			said, _, _ := strings.Cut(selections[r.Samples[i].Selection], "_")
			got = append(got, said)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %s", name, got, test.want)
		}
	}
}

// A run that asks for channels asks for those that ran at each size, also where small sizes get fewer.
func TestAskedChannelsOfLogs(t *testing.T) {
	text := head("all_reduce_perf", 1, 8)
	for _, name := range []string{"ALGO set by environment to Ring", "PROTO set by environment to LL",
		"MAX_NCHANNELS set by environment to 4."} {
		text = "node0:77:77 [0] NCCL INFO NCCL_" + name + "\n" + text
	}
	for size, channels := range map[int]int{1024: 2, 4096: 4} {
		text += fmt.Sprintf("node0:77:77 [0] NCCL INFO AllReduce: %d Bytes -> Algo RING proto LL channel{Lo..Hi}={0..%d}\n",
			size, channels-1) + line(size, "sum", -1, 10, 10, 1.75)
	}
	r, err := Read(strings.NewReader(text+tail(0)), "x.log", Options{})
	if err != nil || len(r.Samples) != 4 {
		t.Fatalf("%v: %+v", err, r)
	}
	for _, s := range r.Samples {
		if s.Selection != SelectionForced || s.Channels < 2 {
			t.Errorf("%d bytes with %d channels: %s", s.Bytes, s.Channels, selections[s.Selection])
		}
	}
}
