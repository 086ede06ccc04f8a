package docs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// poor are measurements that are kept to see that the tools cope, not to learn from.
var poor = []string{"b300-allreduce-unreliable.csv", "rtx5090-noisy.csv"}

// private is what may name a machine or a person: an address, a path, an account, a host with its domain.
var private = regexp.MustCompile(
	`(?:^|[^\d.])\d{1,3}(?:\.\d{1,3}){3}(?:[^\d.]|$)|[0-9a-f]{1,4}(?::[0-9a-f]{0,4}){5,}|` +
		`(?:^|[\s,:=])[~/][\w.-]|\w@\w|\b[a-z][\w-]*\.(?:com|net|org|edu|gov|io|local|internal|cluster)\b|\.(?:log|txt|out)\b`)

// sweepLog is what tunefit sweep calls a log, which names nobody.
var sweepLog = regexp.MustCompile(`\blogs/\d{5}-[\w-]+\.log\b`)

// complaints returns what is wrong with a contribution: a file of measurements, and the page that says where they are
// from.
func complaints(name string, text []byte, page string) (all []string) {
	complain := func(what string) { all = append(all, "docs/measured/"+name+": "+what) }
	read, err := bench.Read(bytes.NewReader(text), name, bench.Options{})
	if err != nil {
		return []string{err.Error()}
	}
	pool := fit.NewPool()
	for i := range read.Samples {
		pool.Add(&read.Samples[i])
	}
	switch used := pool.Set().Used; {
	case read.Doubt() != nil:
		complain(read.Doubt().Error())
	case !slices.Contains(poor, name) && used == 0:
		complain("fit can use none of its rows")
	}
	for _, s := range read.Samples {
		if s.Setup != nil && s.Setup.Hosts != "" {
			complain(s.Source + ": names a host, " + s.Setup.Hosts + " (empty the column hosts)")
			break
		}
	}
	for i, line := range strings.Split(string(text), "\n") {
		if found := private.FindString(sweepLog.ReplaceAllString(line, "")); found != "" {
			complain(fmt.Sprintf("%d:%d: %q may name a machine or a person (take it out)", i+1,
				1+strings.Index(line, found), found))
			break
		}
	}
	if !strings.Contains(page, "\n| ["+name+"]("+name+") | ") {
		complain("docs/measured/README.md does not say what it is")
	}
	origin := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(name) + ` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`).
		FindStringSubmatch(page)
	switch {
	case origin == nil:
		complain("docs/measured/README.md does not say who measured, where that is, and the licence")
	case !slices.Contains([]string{"MIT", "Apache-2.0", "CC0-1.0", "CC-BY-4.0", "none found"}, origin[3]):
		complain("its licence is " + origin[3] + " (allowed: CC0-1.0, CC-BY-4.0, Apache-2.0, MIT; none found for times " +
			"that others published)")
	}
	return all
}

// Each file of measurements can be learnt from, names nobody, and says where it is from.
func TestContributions(t *testing.T) {
	page := pages(t)["docs/measured/README.md"]
	files, _ := filepath.Glob("measured/*.csv")
	if len(files) < 6 {
		t.Errorf("only %d files of measurements", len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, complaint := range complaints(filepath.Base(file), text, page) {
			t.Error(complaint)
		}
	}
}

// A contribution with something wrong is refused, for that reason.
func TestBadContributions(t *testing.T) {
	const (
		head = "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,selection,time_us,source,gpu_model,hosts\n"
		good = "allreduce,4096,ring,ll,4,1,8,forced,20,log1,NVIDIA H100 80GB HBM3,\n"
		page = "\n| [x.csv](x.csv) | a machine |\n\n| x.csv | the example, `0a4a` | `a.csv` | MIT |\n"
	)
	bySweep := strings.Replace(good, "log1", "verify:logs/00014-allreduce-1n-8r-verify-rep1-default.log:27", 1)
	if all := complaints("x.csv", []byte(head+good+bySweep), page); len(all) > 0 {
		t.Errorf("a good one: %q", all)
	}
	for _, c := range []struct{ text, page, want string }{
		{"size_bytes\n4096\n", page, "no measurements in it"},
		{head + strings.Replace(good, "ring,ll", ",", 1), page, "fit can use none"},
		{head + good + strings.Replace(good, ",20,", ",x,", 1), page, "is not a number of microseconds"},
		{head + strings.Replace(good, "3,\n", "3,node17\n", 1), page, "names a host, node17"},
		{head + strings.Replace(good, "log1", "/home/a/b", 1), page, "may name a machine"},
		{head + strings.Replace(good, "log1", "run on gpu1.example.org", 1), page, "example.org"},
		{head + strings.Replace(good, "log1", "a@gpu1", 1), page, "a@g"},
		{head + strings.Replace(good, "log1", "logs/wintermute.log:27", 1), page, ".log"},
		{head + strings.Replace(good, "log1", "10.1.2.3", 1), page, "10.1.2.3"},
		{"# by slurm-77.out\n" + head + good, page, ".out"},
		{head + good, strings.Replace(page, "[x.csv](x.csv)", "x", 1), "does not say what it is"},
		{head + good, strings.Replace(page, "\n| x.csv", "\n| y.csv", 1), "does not say who measured"},
		{head + good, strings.Replace(page, "MIT", "mine", 1), "its licence is mine (allowed: CC0-1.0"},
	} {
		if all := strings.Join(complaints("x.csv", []byte(c.text), c.page), "\n"); !strings.Contains(all, c.want) {
			t.Errorf("want %q, got %q", c.want, all)
		}
	}
}
