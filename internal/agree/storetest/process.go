package storetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
)

// deadline is how long a test waits for what must happen.
const deadline = 5 * time.Minute

// A Process is the test's own program, run again for a part that its TestMain
// finds in the environment.
type Process struct {
	*exec.Cmd
	in    io.WriteCloser
	lines chan string
}

// Start runs the program with more environment, and waits until it is ready.
func Start(t *testing.T, env ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(os.Args[0]), lines: make(chan string, 10_000)}
	p.Env = append(os.Environ(), env...)
	p.Stderr = os.Stderr
	p.in, _ = p.StdinPipe()
	out, _ := p.StdoutPipe()
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
	go func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			p.lines <- scan.Text()
		}
	}()
	p.Await(t, "ready")
	return p
}

// Say writes a line to the process.
func (p *Process) Say(line string) { fmt.Fprintln(p.in, line) }

// Await returns the first line that begins so.
func (p *Process) Await(t *testing.T, begin string) string {
	t.Helper()
	limit := time.NewTimer(deadline)
	defer limit.Stop()
	var before []string
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("the process ended before %q:\n%s", begin, strings.Join(before, "\n"))
			}
			if strings.HasPrefix(line, begin) {
				return line
			}
			before = append(before, line)
		case <-limit.C:
			t.Fatalf("no line %q came:\n%s", begin, strings.Join(before, "\n"))
		}
	}
}

// Rest returns the lines up to the end of the process.
func (p *Process) Rest(t *testing.T) (lines []string) {
	t.Helper()
	limit := time.NewTimer(deadline)
	defer limit.Stop()
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				if err := p.Wait(); err != nil {
					t.Fatalf("%v:\n%s", err, strings.Join(lines, "\n"))
				}
				return lines
			}
			lines = append(lines, line)
		case <-limit.C:
			t.Fatal("a process does not end")
		}
	}
}

const racedKeys = 300

// RacePart is a process's part in Race: it puts its name under all keys and prints
// what stands.
func RacePart(s agree.Store, name string) error {
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	for i := range racedKeys {
		stands, err := s.PutOnce(context.Background(), fmt.Sprintf("c/%d/d/1", i), []byte(name))
		if err != nil {
			return err
		}
		fmt.Println(string(stands))
	}
	return nil
}

// Race lets processes put different values under the same keys: all must see the
// same winners.
func Race(t *testing.T, all []*Process) {
	for _, p := range all {
		p.Say("go")
	}
	first := all[0].Rest(t)
	if len(first) != racedKeys {
		t.Errorf("process 0 saw %d winners", len(first))
	}
	for i, p := range all[1:] {
		if strings.Join(p.Rest(t), " ") != strings.Join(first, " ") {
			t.Errorf("process %d sees other winners than process 0", i+1)
		}
	}
	winners := map[string]int{}
	for _, name := range first {
		winners[name]++
	}
	t.Logf("winners: %v", winners)
}
