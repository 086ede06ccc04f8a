package bench

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Cycles of nccl-tests (-N) and rccl-tests (-s) are passes of one start, in their order, and stay so in a sweep.
func TestPasses(t *testing.T) {
	rows := func(kind string, sizes ...int) (text string) {
		for _, size := range sizes {
			text += strings.Replace(line(size, "sum", -1, 20, 21, 1), "float", kind, 1)
		}
		return text
	}
	run := func(rows string) string { return head("all_reduce_perf", 1, 2) + rows + tail(0) }
	oneSize := strings.NewReplacer("maxBytes 4096", "maxBytes 1024")
	k := []int{1024, 2048, 4096}
	result := `{"size":%d,"count":256,"type":"float","redop":"sum","root":"-1","out_of_place":{"time":20},` +
		`"in_place":{"time":20}}`
	for name, c := range map[string]struct{ text, want string }{
		"one":                {run(rows("float", k...)), "1.1 1.1 1.1"},
		"three":              {run(strings.Repeat(rows("float", k...), 3)), "1.1 1.1 1.1 1.2 1.2 1.2 1.3 1.3 1.3"},
		"as rccl-tests says": {run(rows("float", k...) + "# Testing 2 cycle.\n" + rows("float", k...)), "1.1 1.1 1.1 1.2 1.2 1.2"},
		"two starts": {run(rows("float", 1024, 2048, 1024)) + run(rows("float", 1024, 1024)),
			"1.1 1.1 1.2 2.1 2.1"}, // with sizes that are rounded to one
		"one size":        {oneSize.Replace(run(rows("float", 1024, 1024))), "1.1 1.2"},
		"each type":       {run(strings.Repeat(rows("half", k[:2]...), 2) + rows("float", k[:2]...)), "1.1 1.1 1.2 1.2 1.1 1.1"},
		"cut in a pass":   {head("all_reduce_perf", 1, 2) + rows("float", 1024, 2048, 1024), "1.1 1.1 1.2"},
		"without a table": {"# Collective test starting: all_reduce_perf\n" + rows("float", 1024, 2048, 1024), "1.1 1.1 1.2"},
		"JSON": {fmt.Sprintf(`{"args":["all_reduce_perf"],"results":[`+result+","+result+","+result+"]}", 1024, 2048, 1024),
			"1.1 1.1 1.2"},
		"CSV of repetitions": {"collective,size_bytes,channels,source,time_us\nallreduce,1024,4,a:1,10\n" +
			"allreduce,1024,8,a:2,10\nallreduce,1024,4,a:9,10\nallreduce,1024,4,b:9,10\n", "1.1 1.1 2.1 1.1"},
	} {
		r, err := Read(strings.NewReader(c.text), "x", Options{})
		var sweep bytes.Buffer
		if err == nil {
			err = WriteTidy(&sweep, r.Samples)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := Read(&sweep, "x.csv", Options{})
		if err != nil || !reflect.DeepEqual(again.Samples, r.Samples) {
			t.Errorf("%s: %v: read again %+v, want %+v", name, err, again, r)
		}
		var got []string
		for _, s := range r.Samples {
			if !s.InPlace {
				got = append(got, fmt.Sprintf("%d.%d", s.Start, s.Pass))
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
	r, err := Read(strings.NewReader("collective,size_bytes,time_us,start,pass\nallreduce,1024,12.5,2,3\n"+
		"allreduce,1024,12.5,,\nallreduce,1024,12.5,first,1\n"), "x.csv", Options{})
	if err != nil || len(r.Samples) != 2 || r.Samples[0].Start != 2 || r.Samples[0].Pass != 3 || r.Samples[1].Start != 1 ||
		fmt.Sprint(r.Notes) != `[x.csv:4: start: "first" (allowed: 1 to 2^30; 0, -1 or empty where not known)]` {
		t.Errorf("%v %+v", err, r)
	}
}
