// Package host is the other side of the tuner ABI, for tests and simulated nccl-tests: it loads a tuner plugin the way
// NCCL does and asks it. The plugin runs in a child process, so that it cannot harm the caller and the caller's Go
// runtime cannot disturb the plugin's. The child is this program again: a C constructor (serve.c) takes over before Go
// begins. Load starts the child, which the Plugin owns until Close.
package host

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/probe"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Plugin is a tuner library, loaded in a child process. Its methods are not safe
// for concurrent use.
//
// It sends the child one request a line. It reads the answer: what the plugin logged, a line each, and one line with
// the result. serve.c is the child, and has the grammar of both.
type Plugin struct {
	path   string
	child  *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

// Line is a line that the plugin logged.
type Line struct {
	Warn bool // else INFO
	Text string
}

// CommInfo is what NCCL tells a plugin of a communicator.
type CommInfo struct {
	nccl.Comm
	NVLDomains int          // NVLink domains that it spans; 0: NCCL does not say
	NCCL       nccl.Version // what the child's ncclGetVersion returns; 0: nccl.Reference
}

// CommHandle stands for a communicator that the plugin has created in the child. It stays until the child ends.
type CommHandle struct {
	ABI    int // version of the tuner ABI by which the child asks the plugin
	plugin *Plugin
	number int // the child's name for it
}

// Call is one getCollInfo, in NCCL's numbers.
type Call struct {
	Coll     int
	Bytes    int64
	PipeOps  int
	RegBuff  int
	Table    []float32 // NCCL's predicted microseconds, one row per algorithm
	NumProto int
}

// Answer is what the plugin made of a Call.
type Answer struct {
	Table      []float32
	Channels   int   // 0: left alone
	ChunkBytes int64 // 0: left alone; for the cell that the table makes NCCL choose
	Log        []Line
}

// Load starts a child process that loads the library at path as NCCL does. The child asks the plugin by the newest
// version of the ABI that the library has, up to abi. Close ends the child.
func Load(path string, abi int) (*Plugin, error) {
	if !probe.Supported {
		return nil, errors.New("this program was built without cgo and cannot load a plugin")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if !strings.Contains(path, "/") {
		path = "./" + path // or dlopen would search the system's directories
	}
	p := &Plugin{path: path,
		child: &exec.Cmd{Path: self, Args: []string{"tunefit-plugin-host", path, strconv.Itoa(abi)}}}
	p.child.Stderr = &p.stderr
	if p.in, err = p.child.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.child.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.child.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the plugin's host: %w", err)
	}
	return p, nil
}

// Close ends the child process.
func (p *Plugin) Close() error {
	p.in.Close()
	return p.child.Wait()
}

// Setenv sets a variable in the plugin's process. It takes effect at the next
// Open.
func (p *Plugin) Setenv(name, value string) error {
	if strings.ContainsAny(value, "\n\x00") {
		return fmt.Errorf("%s=%q: a value is one line", name, value)
	}
	_, _, err := p.request("ok", "setenv %s %s", name, value)
	return err
}

// Open creates a communicator. The plugin's log comes back even with an error.
func (p *Plugin) Open(info CommInfo) (*CommHandle, []Line, error) {
	fields, log, err := p.request("open", "open %d %d %d %v", info.Ranks, info.Nodes, info.NVLDomains,
		int(cmp.Or(info.NCCL, nccl.Reference)))
	if err != nil {
		return nil, log, err
	}
	if len(fields) != 3 {
		return nil, log, errors.New("the plugin's host sent half an answer")
	}
	if fields[0] != "0" {
		return nil, log, fmt.Errorf("%s: init returned %s, which fails the communicator", p.path, fields[0])
	}
	c := &CommHandle{plugin: p}
	_, err = fmt.Sscan(strings.Join(fields[1:], " "), &c.number, &c.ABI)
	return c, log, err
}

// Ask calls the plugin's getCollInfo and getChunkSize, once for each call, in
// order. It writes all requests before the child has answered the first, on a goroutine of its own: a full pipe would
// otherwise block both sides.
func (c *CommHandle) Ask(calls []Call) ([]Answer, error) {
	sent := make(chan error, 1)
	go func() {
		var b bytes.Buffer
		for _, call := range calls {
			fmt.Fprintf(&b, "ask %d %d %d %d %d %d %d", c.number, call.Coll, call.Bytes, call.PipeOps,
				call.RegBuff, len(call.Table)/call.NumProto, call.NumProto)
			for _, micros := range call.Table {
				b.WriteByte(' ')
				b.Write(strconv.AppendFloat(b.AvailableBuffer(), float64(micros), 'g', -1, 32))
			}
			b.WriteByte('\n')
		}
		_, err := c.plugin.in.Write(b.Bytes())
		sent <- err
	}()
	answers := make([]Answer, len(calls))
	for i := range answers {
		fields, log, err := c.plugin.answer("answer")
		if err == nil {
			answers[i], err = parseAnswer(fields)
			answers[i].Log = log
		}
		if err != nil {
			return nil, err
		}
	}
	return answers, <-sent
}

func parseAnswer(fields []string) (a Answer, err error) {
	numbers := make([]float64, len(fields))
	for i, f := range fields {
		if numbers[i], err = strconv.ParseFloat(f, 64); err != nil {
			return a, fmt.Errorf("the plugin's host sent %s (needed: a number)", wording.Quote(f))
		}
	}
	if len(numbers) < 2 {
		return a, errors.New("the plugin's host sent half an answer")
	}
	a.Channels, a.ChunkBytes = int(numbers[0]), int64(numbers[1])
	for _, n := range numbers[2:] {
		a.Table = append(a.Table, float32(n))
	}
	return a, nil
}

// request sends one line and reads its answer.
func (p *Plugin) request(want, format string, args ...any) (fields []string, log []Line, err error) {
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		return nil, nil, p.died()
	}
	return p.answer(want)
}

// answer reads up to the line that starts with want and returns its fields, and
// what was logged before it.
func (p *Plugin) answer(want string) (fields []string, log []Line, err error) {
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			return nil, log, p.died()
		}
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "log":
			level, text, _ := strings.Cut(rest, " ")
			log = append(log, Line{Warn: level == "2", Text: text})
		case want:
			return strings.Fields(rest), log, nil
		default:
			return nil, log, fmt.Errorf("%s: the plugin printed %s: a plugin must print nothing", p.path,
				wording.Quote(line))
		}
	}
}

// died returns why the child is gone: what it wrote to standard error, or how it ended.
func (p *Plugin) died() error {
	p.in.Close()
	err := p.child.Wait()
	if said := strings.TrimSpace(p.stderr.String()); said != "" {
		return fmt.Errorf("%s: %s", p.path, said)
	}
	return fmt.Errorf("%s: the process that loaded it ended: %v", p.path, err)
}
