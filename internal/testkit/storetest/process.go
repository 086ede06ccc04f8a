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
	lines, ended := p.until(t, func(line string) bool { return strings.HasPrefix(line, begin) })
	if ended {
		t.Fatalf("the process ended before %q:\n%s", begin, strings.Join(lines, "\n"))
	}
	return lines[len(lines)-1]
}

// Rest returns the lines up to the end of the process.
func (p *Process) Rest(t *testing.T) []string {
	t.Helper()
	lines, _ := p.until(t, func(string) bool { return false })
	if err := p.Wait(); err != nil {
		t.Fatalf("%v:\n%s", err, strings.Join(lines, "\n"))
	}
	return lines
}

// until returns the lines up to the first that is the last wanted, or to the end of the process.
func (p *Process) until(t *testing.T, last func(line string) bool) (lines []string, ended bool) {
	t.Helper()
	limit := time.After(deadline)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				return lines, true
			}
			if lines = append(lines, line); last(line) {
				return lines, false
			}
		case <-limit:
			t.Fatalf("neither the line nor the end of the process came:\n%s", strings.Join(lines, "\n"))
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
