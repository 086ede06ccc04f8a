package cli

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A table that is wider than the terminal has a line for each cell, with its column's name. Elsewhere it has columns.
func TestNarrowTable(t *testing.T) {
	write := func(most int) string {
		var out strings.Builder
		w := Columns{Writer: &out, Most: most}
		table := NewTable(w)
		table.Row()
		table.Row("job", "policy", "change", "")
		table.Row("4711", "/shared/tuner/policy.csv", "", "")
		table.Row("4712", "b.csv", "refused", "!")
		table.Flush()
		list := NewList(w)
		list.Row("  ring", "12 GB/s", "narrowest")
		list.Flush()
		return out.String()
	}
	const columns = "\njob   policy                    change\n" +
		"4711  /shared/tuner/policy.csv\n" +
		"4712  b.csv                     refused  !\n"
	for most, want := range map[int]string{
		0:  columns + "  ring  12 GB/s  narrowest\n",
		42: columns + "  ring  12 GB/s  narrowest\n",
		26: "\njob: 4711\n  policy: /shared/tuner/policy.csv\njob: 4712\n  policy: b.csv\n  change: refused\n  !\n" +
			"  ring  12 GB/s  narrowest\n",
		20: "\njob: 4711\n  policy: /shared/tuner/policy.csv\njob: 4712\n  policy: b.csv\n  change: refused\n  !\n" +
			"  ring\n    12 GB/s\n    narrowest\n",
	} {
		if got := write(most); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", most, got, want)
		}
	}
}

// A terminal tells how wide it is, behind what commands print to.
func TestWidth(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("SKIPPED: no terminal can be made: %v", err)
	}
	defer terminal.Close()
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 40}); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := Width(Printable{Writer: &Output{Writer: terminal}}); got != 40 {
		t.Errorf("the terminal has %d columns", got)
	}
	if got := Width(&Output{Writer: file}); got != 0 {
		t.Errorf("a file has %d columns", got)
	}
}
