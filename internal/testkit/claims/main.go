// Command claims measures what README.md, docs/COSTS.md and docs/dev/EVIDENCE.md say about speed, size and memory, and
// prints one table: the claim, where it is said, and what was measured now. `make bench` runs it, in the project's
// folder.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// figures are values by benchmark and unit, as "Known/rows=10/shapes=64/this ns/op".
type figures map[string]float64

func main() {
	build := flag.String("build", "build", "the folder of what make has built")
	peer := flag.String("peer", "", "another tuner to measure beside ours (default: the linear scan)")
	flag.Parse()
	in := func(name string) string { return filepath.Join(*build, name) }
	library := in("libnccl-tuner-go.so")
	if *peer == "" {
		*peer = in("libnccl-tuner-linear.so")
	}
	all := figures{}
	for _, command := range [][]string{
		{in("bench"), library, in("libnccl-tuner-empty.so"), *peer},
		{"go", "test", "-run", "^$", "-bench", "ReadConditions|ForConditions|DecideByCondition", "-benchtime", "0.5s",
			"./policy"},
		{"go", "test", "-run", "^$", "-bench", "LiveSwitch/1000|LiveIdle/live", "-benchtime", "1x", "./tuner/plugin"},
		{"go", "test", "-count=1", "-run", "TestCostOfManyCommunicators", "-v", "./internal/agree"},
	} {
		if err := all.measure(command); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", strings.Join(command, " "), err)
			os.Exit(1)
		}
	}
	if info, err := os.Stat(library); err == nil {
		all["library MB"] = float64(info.Size()) / 1e6
	}
	const columns = "%-44s  %-78s  %-14s  %s\n"
	fmt.Printf(columns, "what", "claim", "said in", "measured now")
	for _, c := range claims {
		text, err := os.ReadFile(c.page)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Printf(columns, c.what, c.in(string(text)), c.page, c.now(all))
	}
}

// measure runs a command and takes the figures from its output, which it also passes on as progress.
func (f figures) measure(command []string) error {
	fmt.Fprintln(os.Stderr, strings.Join(command, " "))
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	f.read(io.TeeReader(out, os.Stderr))
	return cmd.Wait()
}

var (
	// processors is what go test adds to a benchmark's name.
	processors = regexp.MustCompile(`-\d+$`)
	simulated  = regexp.MustCompile(`: (\d+) nodes .*: (\d+) operations a second idle, (\d+) for ([\d.]+)s in an edit`)
)

// read takes the figures from the output of benchmarks: a name, a count, then values with units.
func (f figures) read(out io.Reader) {
	for s := bufio.NewScanner(out); s.Scan(); {
		if m := simulated.FindStringSubmatch(s.Text()); m != nil {
			for i, unit := range []string{"idle", "edit", "s"} {
				f["simulated/"+m[1]+" "+unit], _ = strconv.ParseFloat(m[2+i], 64)
			}
		}
		fields := strings.Fields(s.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := processors.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")
		for i := 2; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				f[name+" "+fields[i+1]] = v
			}
		}
	}
}
