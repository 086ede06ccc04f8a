//go:build cgo

package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds the wait for anything that must happen, in looks at it: a busy machine gives each look late, and so
// gives what is waited for more time. Nothing is measured by it.
const (
	patience = int(6 * time.Minute / each)
	each     = 2 * time.Millisecond
)

// await waits for what a channel gives.
func await[T any](t testing.TB, what string, from <-chan T) (got T) {
	t.Helper()
	began, next := time.Now(), time.NewTicker(each) // which drops ticks that nobody has taken
	defer next.Stop()
	for range patience {
		select {
		case got = <-from:
			return got
		case <-next.C:
		}
	}
	inVain(t, what, began)
	return got
}

// eventually waits until what holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	began := time.Now()
	for range patience {
		if holds() {
			return
		}
		time.Sleep(each) // until other processes have done it
	}
	inVain(t, what, began)
}

// inVain ends a test whose patience is over. It tells what the machine did meanwhile: jobs need its attention.
func inVain(t testing.TB, what string, began time.Time) {
	t.Helper()
	took := time.Since(began)
	load, _ := os.ReadFile("/proc/loadavg")
	t.Fatalf("waited in vain for %v: %s\nThis test needs the machine's attention. A look each %v took %v in the mean; the load "+
		"is %s on %d processors. If that is far above, run the test alone.", took.Round(time.Second), what, each,
		(took / time.Duration(patience)).Round(100*time.Microsecond), bytes.TrimSpace(load), runtime.NumCPU())
}

// job is several processes of testhost/rank.c that read one policy.
type job struct {
	testing.TB
	dir   string // of the processes' logs
	seed  uint32 // of the calls and the communicators' ids: no two jobs may share them
	ranks []*rank
}

// rank is one process.
type rank struct {
	job   *job
	id    int
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	log   *os.File      // of its calls
	done  chan struct{} // closed when it has ended, and all that it logged is read
	state error         // how

	mu   sync.Mutex
	said []string // by the plugin
}

// startJob starts processes and waits until all have opened their communicators. arg
// are settings of rank.c, env the plugin's.
func startJob(t testing.TB, p programs, processes int, arg, env []string) *job {
	t.Helper()
	j := newJob(t)
	for i := range processes {
		j.ranks = append(j.ranks, j.launch(p, i, arg, env))
	}
	for _, r := range j.ranks {
		r.ready()
	}
	return j
}

// newJob is one without processes yet.
func newJob(t testing.TB) *job {
	j := &job{TB: t, dir: t.TempDir(), seed: rand.Uint32()}
	os.Chmod(filepath.Dir(j.dir), 0o755) // ranks may run as another user
	os.Chmod(j.dir, 0o777)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed=%d", j.seed)
			j.show()
		}
	})
	return j
}

// launch starts a process and does not wait for it.
func (j *job) launch(p programs, id int, arg, env []string) *rank {
	j.Helper()
	return j.start(p.rank, p.so, fmt.Sprint("calls.", id), id, arg, env)
}

// start starts a program that plays a process of the job, given a file of this name.
func (j *job) start(program, so, file string, id int, arg, env []string) *rank {
	j.Helper()
	r := &rank{job: j, id: id, done: make(chan struct{})}
	r.cmd = command(program, append([]string{so, filepath.Join(j.dir, file), fmt.Sprint("id=", id),
		fmt.Sprint("seed=", j.seed)}, arg...)...)
	r.cmd.Env = append(os.Environ(), env...)
	// A test that is killed leaves nobody behind.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, _ := r.cmd.StdinPipe()
	// Pipes of our own: Wait must not close them before all is read, nor wait for
	// children that hold them.
	out, outW, err := os.Pipe()
	if err != nil {
		j.Fatal(err)
	}
	logged, loggedW, err := os.Pipe()
	if err != nil {
		j.Fatal(err)
	}
	r.in, r.out = in, bufio.NewReader(out)
	r.cmd.Stdout, r.cmd.Stderr = outW, loggedW
	if err := r.cmd.Start(); err != nil {
		j.Fatal(err)
	}
	outW.Close()
	const end = "-- it has ended --"
	all := make(chan struct{}) // closed when all that was logged before the end is read
	go func() {
		defer close(all)
		defer logged.Close()
		for s := bufio.NewScanner(logged); s.Scan() && s.Text() != end; {
			r.mu.Lock()
			r.said = append(r.said, s.Text())
			r.mu.Unlock()
		}
	}()
	go func() {
		r.state = r.cmd.Wait()
		fmt.Fprintf(loggedW, "\n%s\n", end) // the process may have been killed within a line
		loggedW.Close()
		<-all
		close(r.done)
	}()
	j.Cleanup(func() {
		r.cmd.Process.Kill()
		<-r.done
		out.Close()
		if r.log != nil {
			r.log.Close()
		}
	})
	return r
}

// ready waits until the process has opened its communicators and returns how long
// each took.
func (r *rank) ready() (opened []time.Duration) {
	r.job.Helper()
	for {
		line := r.answer()
		if line == "ready" {
			break
		}
		opened = append(opened, r.opened(line))
	}
	var err error
	if r.log, err = os.Open(filepath.Join(r.job.dir, fmt.Sprint("calls.", r.id))); err != nil {
		r.job.Fatal(err)
	}
	return opened
}

func (r *rank) opened(line string) time.Duration {
	r.job.Helper()
	var context, result int
	var nanos int64
	if _, err := fmt.Sscanf(line, "opened %d: %d after %d ns", &context, &result, &nanos); err != nil || result != 0 {
		r.job.Fatalf("rank %d: %q", r.id, line)
	}
	return time.Duration(nanos)
}

// answer is the next line of the process's standard output.
func (r *rank) answer() string {
	r.job.Helper()
	type read struct {
		line string
		err  error
	}
	got := make(chan read, 1)
	go func() {
		line, err := r.out.ReadString('\n')
		got <- read{strings.TrimSpace(line), err}
	}()
	g := await(r.job, fmt.Sprintf("rank %d answers", r.id), got)
	if g.err != nil {
		r.job.Fatalf("rank %d has ended: %v", r.id, g.err)
	}
	return g.line
}

func (r *rank) tell(command string) (answer string) {
	r.job.Helper()
	if _, err := io.WriteString(r.in, command+"\n"); err != nil {
		r.job.Fatalf("rank %d: %v", r.id, err)
	}
	return r.answer()
}

// tell gives all processes a command at once.
func (j *job) tell(command string) {
	j.Helper()
	for _, r := range j.ranks {
		io.WriteString(r.in, command+"\n")
	}
	for _, r := range j.ranks {
		r.answer()
	}
}

// end ends all processes as they should end.
func (j *job) end() {
	j.Helper()
	for _, r := range j.ranks {
		r.in.Close()
	}
	for _, r := range j.ranks {
		await(j, fmt.Sprintf("rank %d ends", r.id), r.done)
		if r.state != nil {
			j.Errorf("rank %d: %v", r.id, r.state)
		}
	}
}

// hears waits until the plugin of the process has logged a line with all the texts.
func (r *rank) hears(texts ...string) (line string) {
	r.job.Helper()
	eventually(r.job, fmt.Sprintf("rank %d logs %q", r.id, texts), func() bool {
		line = r.heard(texts...)
		return line != ""
	})
	return line
}

// anyHears waits until some process has logged a line with all the texts.
func (j *job) anyHears(texts ...string) {
	j.Helper()
	eventually(j, fmt.Sprintf("a rank logs %q", texts), func() bool {
		return slices.ContainsFunc(j.ranks, func(r *rank) bool { return r.heard(texts...) != "" })
	})
}

// proposed waits until a rank has proposed change k.
func (j *job) proposed(k int) {
	j.Helper()
	j.anyHears(fmt.Sprintf("change %d: proposed", k))
}

// heard is the first line with all the texts so far.
func (r *rank) heard(texts ...string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.said {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			return line
		}
	}
	return ""
}

// times counts the lines with the text.
func (r *rank) times(text string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.said {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// show is for a test that failed.
func (j *job) show() {
	for _, r := range j.ranks {
		r.mu.Lock()
		j.Logf("rank %d:\n%s", r.id, strings.Join(r.said[max(0, len(r.said)-40):], "\n"))
		r.mu.Unlock()
	}
}

// The numbers of testhost/rank_log.h.
const (
	maxContexts = 32
	callRoom    = 1 << 17
	chunkUnit   = 32 << 10
)

// call is struct rank_call.
type call struct {
	outcome
	Result  uint8
	Flags   uint8
	Nanos   uint32
	Unused  uint32
	AtNanos int64
}

// outcome is what must be alike on all ranks.
type outcome struct{ Coll, Size, Cell, Channels, Chunk, Other uint8 }

func (c call) waited() bool { return c.Flags&1 != 0 }

// count is how many calls a context has made so far.
func (r *rank) count(context int) int {
	var n [8]byte
	if _, err := r.log.ReadAt(n[:], int64(8*context)); err != nil {
		r.job.Fatal(err)
	}
	return int(binary.LittleEndian.Uint64(n[:]))
}

// calls are those that a context has made so far, from one on.
func (r *rank) calls(context, from int) []call {
	size := binary.Size(call{})
	text := make([]byte, max(0, r.count(context)-from)*size)
	if _, err := r.log.ReadAt(text, int64(8*maxContexts+(context*callRoom+from)*size)); err != nil {
		r.job.Fatal(err)
	}
	calls := make([]call, len(text)/size)
	if err := binary.Read(bytes.NewReader(text), binary.LittleEndian, calls); err != nil {
		r.job.Fatal(err)
	}
	return calls
}

// waitCalls waits until a context of each process has made n more calls.
func waitCalls(context, n int, ranks ...*rank) {
	var want []int
	for _, r := range ranks {
		want = append(want, r.count(context)+n)
	}
	for i, r := range ranks {
		r.job.Helper()
		eventually(r.job, fmt.Sprintf("rank %d makes %d more calls", r.id, n), func() bool {
			return r.count(context) >= want[i]
		})
	}
}
