// Package doctor says whether a job would find the tuner, NCCL, its files and its rendezvous in this environment.
//
// An examination ends in time and leaves nothing behind.
// AskNodes examines several nodes at once, by a tunefit on each.
package doctor

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/dirstore"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
)

// Limits end an examination that hangs. They are more than localenv.AnswerLimit, to leave time to say that the driver
// or an etcd has not answered.
const (
	Limit        = 2500 * time.Millisecond // somebody waits
	LimitOnNodes = 10 * time.Second        // on one of several nodes: any may be busy
)

// Options are what the caller tells an examination. The environment tells the rest.
type Options struct {
	Library string // that was built with this tunefit; "" if it is not there
	NCCL    string // libnccl.so.2 that the job uses; "" for those found
	Nodes   int    // that the job has
	Machine bool   // only what counts without a tuner, too
	Limit   time.Duration
}

// Examine says what is wrong and what is fine in this environment.
func Examine(o Options) []Finding {
	all := examinations
	if o.Machine {
		all = slices.DeleteFunc(slices.Clone(all), func(e examination) bool { return e.tuner })
	}
	return onThisMachine(o).examine(context.Background(), all)
}

// doctor is one examination of an environment. Tests choose the fields from env to detect.
type doctor struct {
	Options

	env     *localenv.Environment
	shm     string
	proc    string
	cgroups string
	detect  localenv.FindingMachine

	// What several examinations ask for.
	machine func() localenv.Machine
	plugin  func() pluginFound
	files   func() filesFound
}

// examination is one thing to look at. It may be given up when ctx ends.
type examination struct {
	name string
	run  func(*doctor, context.Context, *report)
	// tuner: only a job with the tuner needs what it looks at.
	tuner bool
}

// examinations are in the order in which a job meets what they look at.
var examinations = []examination{
	{"plugin", (*doctor).examinePlugin, true},
	{"nccl", (*doctor).examineNCCL, false},
	{"environment", (*doctor).examineEnvironment, false},
	{"files", (*doctor).examineFiles, true},
	{"topology", (*doctor).examineTopology, false},
	{"cpu", (*doctor).examineCPU, false},
	{"rendezvous", (*doctor).examineRendezvous, true},
	{"metrics", (*doctor).examineMetrics, true},
	{"record", (*doctor).examineRecord, true},
	{"limits", (*doctor).examineLimits, false},
}

// onThisMachine makes a doctor that looks at this machine.
func onThisMachine(o Options) *doctor {
	return &doctor{Options: o, env: localenv.Here(), shm: dirstore.Shm, proc: "/proc", cgroups: "/sys/fs/cgroup",
		detect: policyfile.FindMachine}
}

// examine runs all examinations at once and returns their findings in order. One that
// does not end in time is a finding itself.
func (d *doctor) examine(parent context.Context, all []examination) []Finding {
	ctx, cancel := context.WithTimeout(parent, d.Limit)
	defer cancel()
	d.machine = onceInBackground(func() localenv.Machine { return localenv.FindMachine(d.detect, d.env.Get) })
	d.plugin = onceInBackground(func() pluginFound { return d.findPlugin(ctx) })
	d.files = onceInBackground(d.readFiles)
	results := make([]chan report, len(all))
	for i, e := range all {
		results[i] = make(chan report, 1)
		go func() {
			var r report
			e.run(d, ctx, &r)
			results[i] <- r
		}()
	}
	var findings []Finding
	for i, e := range all {
		var r report
		select {
		case r = <-results[i]:
		case <-ctx.Done():
			// What has ended at the last moment counts.
			select {
			case r = <-results[i]:
			case <-time.After(50 * time.Millisecond):
				r.timedOut(d, "not known")
			}
		}
		for _, f := range r {
			f.Check = e.name
			findings = append(findings, f)
		}
	}
	return findings
}

// onceInBackground returns a function that calls find once, in the background, and returns the result to all callers.
// They wait for a channel: a test's clock (synctest) stands still while somebody waits in sync.OnceValue.
func onceInBackground[T any](find func() T) func() T {
	var once sync.Once
	var found T
	done := make(chan struct{})
	return func() T {
		once.Do(func() {
			go func() {
				defer close(done)
				found = find()
			}()
		})
		<-done
		return found
	}
}

// severity says how bad a finding is.
type severity int8

const (
	isFine    severity = iota
	isNote             // worth knowing
	isWarning          // not what somebody wanted, most likely
	isError            // does not work
)

func (s severity) String() string { return [...]string{"ok", "note", "warning", "error"}[s] }

// MarshalText implements encoding.TextMarshaler.
func (s severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *severity) UnmarshalText(text []byte) error {
	for *s = isFine; *s <= isError; *s++ {
		if s.String() == string(text) {
			return nil
		}
	}
	return fmt.Errorf("unknown severity %q", text)
}

// Finding is what an examination found.
type Finding struct {
	Check    string   `json:"check"`
	Severity severity `json:"severity"`
	Found    string   `json:"found"`
	Do       string   `json:"do,omitempty"`
	// Unknown: it could not be examined.
	Unknown bool `json:"unknown,omitempty"`
	// Nodes have found it, where several were examined and others have not.
	Nodes []string `json:"nodes,omitempty"`
}

// report collects what an examination finds.
type report []Finding

func (r *report) add(s severity, do, format string, args ...any) {
	*r = append(*r, Finding{Severity: s, Found: fmt.Sprintf(format, args...), Do: do})
}

func (r *report) fine(format string, args ...any)     { r.add(isFine, "", format, args...) }
func (r *report) note(do, format string, args ...any) { r.add(isNote, do, format, args...) }
func (r *report) warn(do, format string, args ...any) { r.add(isWarning, do, format, args...) }
func (r *report) fail(do, format string, args ...any) { r.add(isError, do, format, args...) }

// unknown is what could not be examined.
func (r *report) unknown(format string, args ...any) {
	*r = append(*r, Finding{Severity: isNote, Unknown: true, Found: fmt.Sprintf(format, args...)})
}

// timedOut warns that something did not end in time.
func (r *report) timedOut(d *doctor, what string) {
	*r = append(*r, Finding{Severity: isWarning, Unknown: true, Do: "look for a file system that hangs, or for what " +
		"keeps this node busy", Found: fmt.Sprintf("%s: it took longer than %v", what, d.Limit)})
}

// sound reports that all is well so far.
func (r report) sound() bool {
	return !slices.ContainsFunc(r, func(f Finding) bool { return f.Severity > isFine })
}

// Failed reports whether something is wrong, or could not be examined.
func Failed(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity >= isWarning || f.Unknown })
}

// Write prints the worst first, and what to do below each.
func Write(w io.Writer, findings []Finding) error {
	sorted := slices.Clone(findings)
	slices.SortStableFunc(sorted, func(a, b Finding) int { return int(b.Severity) - int(a.Severity) })
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Check))
	}
	var counts [isError + 1]int
	indent := strings.Repeat(" ", len("warning  ")+width+2)
	var b strings.Builder
	for _, f := range sorted {
		counts[f.Severity]++
		if len(f.Nodes) > 0 {
			f.Found = hostList(f.Nodes) + ": " + f.Found
		}
		fmt.Fprintf(&b, "%-7s  %-*s  %s\n", f.Severity, width, f.Check, strings.ReplaceAll(f.Found, "\n", "\n"+indent))
		if f.Do != "" {
			fmt.Fprintf(&b, "%s-> %s\n", indent, f.Do)
		}
	}
	verdict := "sound"
	if counts[isError]+counts[isWarning] > 0 {
		verdict = wording.Plural(counts[isError], "error") + ", " + wording.Plural(counts[isWarning], "warning")
	} else if Failed(findings) {
		verdict = "nothing wrong, but not all could be examined"
	}
	fmt.Fprintf(&b, "%s\n", verdict)
	_, err := io.WriteString(w, b.String())
	return err
}
