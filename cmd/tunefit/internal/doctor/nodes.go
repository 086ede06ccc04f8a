package doctor

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// LateAfter is how long AskNodes waits for the next answer. It waits for the first as long as the launcher runs, since
// the job may be in a queue.
const LateAfter = 30 * time.Second

// AskNodes starts a command on nodes and collects the answers. The launcher is a command line of the shell, to which
// AskNodes appends the command. All other output goes to log as it comes, and progress gets the number of answers,
// never both at once. AskNodes ends when no answer has come for the time late.
func AskNodes(ctx context.Context, launcher string, command []string, log io.Writer, progress func(answers int),
	late time.Duration) (*Answers, error) {
	lines := &oneByOne{Writer: log}
	log = lines
	progress(0)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "exec "+launcher+" "+cli.ShellWords(command))
	// A signal to the group also reaches a launcher that another one started. Launchers then end what they started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = late
	pipe, feed := io.Pipe()
	cmd.Stdout, cmd.Stderr = feed, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("launcher %q: %w", launcher, err)
	}
	answers := &Answers{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		timer := time.AfterFunc(time.Hour, cancel)
		timer.Stop()
		defer timer.Stop()
		in := bufio.NewReader(pipe)
		for {
			line, err := in.ReadString('\n')
			if answers.Read(line) {
				timer.Reset(late)
				lines.mu.Lock()
				progress(answers.Count())
				lines.mu.Unlock()
			} else if line != "" {
				_, _ = io.WriteString(log, line)
			}
			if err != nil {
				return
			}
		}
	}()
	ended := cmd.Wait()
	feed.Close()
	<-read
	if exit := (*exec.ExitError)(nil); ended != nil && !errors.As(ended, &exit) &&
		!errors.Is(ended, exec.ErrWaitDelay) && ctx.Err() == nil {
		return nil, fmt.Errorf("launcher %q: %w", launcher, ended)
	}
	return answers, nil
}

var (
	nodeOption    = regexp.MustCompile(`\s(?:-N|--nodes)[ =]?([1-9][0-9]*)`)
	processOption = regexp.MustCompile(`\s(?:-n|-np|--n|--np|--ntasks)[ =]?([1-9][0-9]*)`)
)

// NodesOf reads from a launcher's command line on how many nodes it starts one process each: the nodes of srun, else
// the number of processes. 0: it does not say.
func NodesOf(launcher string) int {
	m := nodeOption.FindStringSubmatch(launcher)
	if m == nil || !strings.Contains(launcher, "srun") { // mpirun's -N is another number
		m = processOption.FindStringSubmatch(launcher)
	}
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// oneByOne is a writer for several goroutines.
type oneByOne struct {
	io.Writer
	mu sync.Mutex
}

func (w *oneByOne) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Writer.Write(text)
}

// answerLine is a finding of a node, or a part of one, in a line of its own. Launchers put names before lines and mix
// those of several nodes, so each line names its process and which line of how many it is.
type answerLine struct {
	Process string `json:"tunefit"` // the node's name, a blank, the process's number
	At      int    `json:"at"`      // from 0
	Of      int    `json:"of"`
	Finding        // without Check: the finding of the line before goes on
}

var answerStart = regexp.MustCompile(`\{"tunefit":"((\S+) [0-9]+)",`)

// answerRoom is the size of a finding in a line. srun cuts lines at 1024 bytes, and mixes the pieces.
const answerRoom = 800

// WriteAnswer prints what this node found, for Answers.
func WriteAnswer(w io.Writer, findings []Finding) error {
	host, err := os.Hostname()
	host = cmp.Or(os.Getenv("SLURMD_NODENAME"), host) // what the site calls it
	var all []Finding
	for _, f := range findings {
		all = append(all, f.parts()...)
	}
	for i := 0; i < len(all) && err == nil; i++ {
		err = json.NewEncoder(w).Encode(answerLine{fmt.Sprint(host, " ", os.Getpid()), i, len(all), all[i]})
	}
	return err
}

// parts halves the texts of a finding until each part has room in a line.
func (f Finding) parts() []Finding {
	if text, err := json.Marshal(f); err != nil || len(text) <= answerRoom {
		return []Finding{f}
	}
	found, do := []rune(f.Found), []rune(f.Do)
	rest := Finding{Found: string(found[len(found)/2:]), Do: string(do[len(do)/2:])}
	f.Found, f.Do = string(found[:len(found)/2]), string(do[:len(do)/2])
	return append(f.parts(), rest.parts()...)
}

// Answers collects the answers of nodes.
type Answers struct {
	complete []answer
	begun    map[string][]*Finding // by process: of each line; nil: it has not come
}

type answer struct {
	host     string
	findings []Finding
}

// Count is how many processes have answered.
func (a *Answers) Count() int { return len(a.complete) }

// Read takes a line of a launcher's output, and says whether it belongs to an answer.
func (a *Answers) Read(line string) bool {
	m := answerStart.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	var l answerLine
	text := line[strings.Index(line, m[0]):] // its end may be the launcher's
	sound := json.NewDecoder(strings.NewReader(text)).Decode(&l) == nil && 0 <= l.At && l.At < l.Of && l.Of <= 1000
	process, begun := m[1], a.begun[m[1]]
	if sound && len(begun) != l.Of {
		begun = make([]*Finding, l.Of)
	}
	if a.begun == nil {
		a.begun = map[string][]*Finding{}
	}
	if a.begun[process] = begun; !sound { // the line may come once more
		return false
	}
	if begun[l.At] = &l.Finding; slices.Contains(begun, nil) {
		return true
	}
	var all []Finding
	for _, f := range begun {
		if last := len(all) - 1; f.Check == "" && last >= 0 {
			all[last].Found += f.Found
			all[last].Do += f.Do
		} else {
			all = append(all, *f)
		}
	}
	a.complete = append(a.complete, answer{m[2], all})
	delete(a.begun, process)
	return true
}

// measured matches what differs between nodes that are alike: how long something took.
var measured = regexp.MustCompile(`\b[0-9.]+(?:ns|µs|ms|s)\b`)

// mayDiffer are the checks in which sound nodes may differ: how much room there is.
var mayDiffer = []string{"limits", "rendezvous"}

// Across makes one list of what the nodes found. It has a finding of all nodes once, and a finding of some with their
// names. It adds findings for missing answers, if there are fewer than nodes, and for checks in which nodes differ
// although each is sound. The verdict is one line: "4 nodes agree", or in what they differ.
func (a *Answers) Across(nodes int) (findings []Finding, verdict string) {
	slices.SortStableFunc(a.complete, func(x, y answer) int { return compareHosts(x.host, y.host) })
	var hosts []string
	var all []Finding // each once
	for _, n := range a.complete {
		if slices.Contains(hosts, n.host) {
			continue // a second process of a node
		}
		hosts = append(hosts, n.host)
		for _, f := range n.findings {
			i := slices.IndexFunc(all, func(o Finding) bool {
				return o.Check == f.Check && o.Severity == f.Severity && o.Do == f.Do && o.Unknown == f.Unknown &&
					measured.ReplaceAllString(o.Found, "") == measured.ReplaceAllString(f.Found, "")
			})
			if i < 0 {
				f.Nodes = nil
				i, all = len(all), append(all, f)
			}
			if !slices.Contains(all[i].Nodes, n.host) {
				all[i].Nodes = append(all[i].Nodes, n.host)
			}
		}
	}
	findings = a.missing(nodes, hosts)
	var differ []string
	for _, check := range examinations {
		var bad, good int // that some nodes found, and others did not
		for _, f := range all {
			switch {
			case f.Check != check.name:
				continue
			case len(f.Nodes) == len(hosts):
				f.Nodes = nil
			case f.Severity >= isWarning:
				bad++
			default:
				good++
			}
			findings = append(findings, f)
		}
		if bad+good == 0 || bad == 0 && slices.Contains(mayDiffer, check.name) {
			continue
		}
		differ = append(differ, check.name)
		var r report
		switch check.name {
		case "files":
			r.fail("put the files where all nodes see the same",
				"the nodes differ, and ranks with different versions refuse to start together")
		case "cpu":
			r.warn("run the job on nodes of one vendor, or measure for the policy on such a mixture",
				"the nodes' CPUs differ, and NCCL's estimates and channels depend on who made them: its default is "+
					"not that of nodes alike. Before NCCL 2.22.3 ranks may choose differently and hang")
		default:
			r.warn("give all nodes the same", "the nodes differ")
		}
		if r[0].Check = check.name; good > 1 || bad == 0 {
			findings = append(findings, r...)
		}
	}
	n := wording.Plural(len(hosts), "node")
	switch {
	case len(differ) > 0:
		return findings, fmt.Sprintf("%s differ in %s", n, strings.Join(differ, ", "))
	case len(hosts) == 0:
		return findings, "no node answered"
	case len(hosts) == 1:
		return findings, "1 node answered"
	}
	return findings, n + " agree"
}

// missing says which nodes have not answered.
func (a *Answers) missing(nodes int, hosts []string) (r report) {
	if len(hosts) < nodes {
		do := "look at what the launcher says, and whether this tunefit is at the same path on all nodes"
		text := fmt.Sprintf("%d of %d nodes answered", len(hosts), nodes)
		if len(hosts) > 0 {
			text += ": " + hostList(hosts)
		}
		if len(a.complete) > len(hosts) {
			text += fmt.Sprintf(", by %d processes", len(a.complete))
			do = "start one process a node, as with --map-by ppr:1:node"
		}
		r.fail(do, "%s", text)
	}
	for process := range a.begun {
		host, _, _ := strings.Cut(process, " ")
		r.fail("start the doctor once more", "the launcher damaged the answer of %s", host)
	}
	for i := range r {
		r[i].Check = "launch"
	}
	return r
}

// splitHost splits a host's name into what comes before its last number, and the number's digits, which may be none.
func splitHost(name string) (prefix, digits string) {
	prefix = strings.TrimRight(name, "0123456789")
	return prefix, name[len(prefix):]
}

// compareHosts puts node2 before node10.
func compareHosts(a, b string) int {
	prefixA, digitsA := splitHost(a)
	prefixB, digitsB := splitHost(b)
	return cmp.Or(strings.Compare(prefixA, prefixB), cmp.Compare(len(digitsA), len(digitsB)),
		strings.Compare(digitsA, digitsB))
}

// hostList writes sorted names as Slurm does: node[1-3,7].
func hostList(hosts []string) string {
	var all []string
	for _, alike := range cli.Groups(hosts, func(host string) string {
		prefix, digits := splitHost(host)
		return fmt.Sprint(prefix, digits == "")
	}) {
		prefix, _ := splitHost(alike[0])
		var ranges []string
		for i := 0; i < len(alike); i++ {
			_, first := splitHost(alike[i])
			last := first
			for ; i+1 < len(alike) && first != "" && alike[i+1] == prefix+nextNumber(last); i++ {
				last = nextNumber(last)
			}
			if first != last {
				first += "-" + last
			}
			ranges = append(ranges, first)
		}
		list := strings.Join(ranges, ",")
		if strings.ContainsAny(list, ",-") {
			list = "[" + list + "]"
		}
		all = append(all, prefix+list)
	}
	return strings.Join(all, ", ")
}

// nextNumber is the number that follows, with as many digits.
func nextNumber(digits string) string {
	n, _ := strconv.Atoi(digits)
	return fmt.Sprintf("%0*d", len(digits), n+1)
}
