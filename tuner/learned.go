package tuner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// LearnedFile is the policy in the directory of NCCL_TUNER_LEARN that holds what jobs have proven.
const LearnedFile = "learned.csv"

// learnedHeader is its first line.
const learnedHeader = "collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,nccl,when\n"

// learnLimit bounds the wait for that directory, mostEvidence the size of a file in it.
const (
	learnLimit   = 2 * time.Second
	mostEvidence = 16 << 20
)

// learning is the directory of NCCL_TUNER_LEARN as a communicator uses it.
type learning struct {
	dir      string
	trust    bool
	loader   *policyfile.Loader
	timeouts *safefile.Timeouts
	log      telemetry.Log

	key, name string // of the communicator
	comm      nccl.Comm
	release   nccl.Releases

	rows []byte // of learned.csv as it was first read; nil: not yet
}

// newLearning is how a communicator uses it.
func newLearning(s settings, p *Plugin, key string, info CommInfo, log telemetry.Log) *learning {
	return &learning{dir: s.learn, trust: s.files.Trust, loader: p.loader, timeouts: &p.timeouts, log: log, key: key,
		name: info.Name, comm: info.Comm, release: info.NCCL}
}

// subject is what a communicator may learn about whose calls are decided by base; nil where the directory cannot be
// read.
func (l *learning) subject(log telemetry.Log, evidence trial.Evidence, budget float64, base *policyfile.Version,
	calls *shapes) *trial.Subject {
	log.Infof("%s=%s: trying what makes steps shorter; algorithms and channel counts add in different orders, so sums "+
		"may change in their last bits", EnvLearn, l.dir)
	earlier, proven, err := l.earlier(evidence)
	if err != nil { // it would be overwritten
		log.Warnf("%s=%s: nothing is learned: %v", EnvLearn, l.dir, err)
		return nil
	}
	return &trial.Subject{
		Budget: budget, Earlier: earlier,
		Choose: func(of map[uint64]int, step time.Duration) ([]trial.Factor, []string) {
			return calls.factors(of, step, proven)
		},
		With: func(factors []trial.Factor, arms []int) (trial.Variant, error) {
			return l.with(base, factors, arms)
		},
	}
}

// evidenceFile is the name of the file for evidence. It is one for all communicators that try the same on such a
// machine with such a release, as those of a job's tensor parallel groups do: they make the same steps.
func evidenceFile(e trial.Evidence) string {
	h := fnv.New64a()
	fmt.Fprintln(h, e.Machine)
	for _, f := range e.Factors {
		fmt.Fprintln(h, f.Coll, f.Min, f.Max, f.Arms[0].Config)
	}
	release := strings.NewReplacer(">=", "from-", "<=", "to-").Replace(cmp.Or(e.NCCL, "unknown"))
	return fmt.Sprintf("learning-%dn-%dr-%s-%016x.json", e.Nodes, e.Ranks, release, h.Sum64())
}

// newEvidence is that of a communicator which begins to learn.
func (l *learning) newEvidence() trial.Evidence {
	e := trial.Evidence{Format: trial.EvidenceFormat, Version: trial.EvidenceVersion, Key: l.key, Comm: l.comm,
		Name: l.name, Machine: l.loader.Fingerprint(), Began: time.Now()}
	if l.release != (nccl.Releases{}) {
		e.NCCL = l.release.String()
	}
	return e
}

// path is the path of a file in the directory of NCCL_TUNER_LEARN.
func (l *learning) path(name string) string { return filepath.Join(l.dir, name) }

func (l *learning) readEvidence(path string) (*trial.Evidence, error) {
	text, err := safefile.ReadOwned(path, l.trust, mostEvidence)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, safefile.Reason(err))
	}
	e, _, err := trial.Read(path, text)
	if e == nil && err == nil {
		err = fmt.Errorf("%s: not what a job has learned", path)
	}
	if err == nil && e.Machine != "" {
		if _, err = topo.ParseFingerprint(e.Machine); err != nil {
			err = fmt.Errorf("%s: its machine: %w", path, err)
		}
	}
	return e, err
}

// kept returns the evidence in the directory, the latest first. Other files are left out, and named.
func (l *learning) kept() ([]trial.Evidence, error) {
	files := l.path("*.json")
	return safefile.Within(l.timeouts, files, learnLimit, func() (all []trial.Evidence, err error) {
		paths, err := filepath.Glob(files)
		for _, path := range paths {
			e, err := l.readEvidence(path)
			if err != nil {
				l.log.Warnf("left out: %v", err)
				continue
			}
			all = append(all, *e)
		}
		slices.SortStableFunc(all, func(a, b trial.Evidence) int { return b.At.Compare(a.At) })
		return all, err
	})
}

// earlier returns the evidence to go on from, and which calls others have proven.
func (l *learning) earlier(of trial.Evidence) (open []trial.Evidence, proven func(nccl.Coll, nccl.Range) bool,
	err error) {
	all, err := l.kept()
	var learned []trial.Factor
	for _, e := range all {
		switch {
		case e.Comm != of.Comm, e.NCCL != of.NCCL, e.Machine != of.Machine:
		case e.State == trial.Learned:
			learned = append(learned, e.Factors...)
		default:
			open = append(open, e)
		}
	}
	return open, func(coll nccl.Coll, sizes nccl.Range) bool {
		return slices.ContainsFunc(learned, func(f trial.Factor) bool { return f.Coll == coll && f.Holds(sizes) })
	}, err
}

// save writes evidence, and the rows of all that is proven where this is. What was proven stays: another communicator
// that tries the same may prove nothing.
func (l *learning) save(e trial.Evidence) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	path := l.path(evidenceFile(e))
	err = l.timeouts.Do(path, learnLimit, func() error {
		if err := os.MkdirAll(l.dir, 0o755); err != nil {
			return err
		}
		there, err := l.readEvidence(path)
		if err == nil && there.State == trial.Learned && e.State != trial.Learned {
			return nil
		}
		return safefile.Write(path, append(text, '\n'))
	})
	if err != nil || e.State != trial.Learned {
		return err
	}
	for written := ""; ; { // again where another rank has proven more meanwhile
		all, err := l.kept()
		rows := learnedPolicy(all)
		if err != nil || rows == written {
			return err
		}
		written = rows
		err = l.timeouts.Do(path, learnLimit, func() error {
			return safefile.Write(l.path(LearnedFile), []byte(rows))
		})
		if err != nil {
			return err
		}
	}
}

// learnedPolicy is the text of learned.csv: a row for each arm that evidence has proven, below a comment that says what
// it rests on.
func learnedPolicy(all []trial.Evidence) string {
	var text strings.Builder
	text.WriteString(learnedHeader)
	for _, e := range all {
		for _, f := range e.Factors {
			k := slices.IndexFunc(f.Arms, func(a trial.Arm) bool { return a.Proven })
			if e.State != trial.Learned || k < 0 {
				continue
			}
			a, half := f.Arms[k], trial.Surely*f.Arms[k].Error
			fmt.Fprintf(&text, "# %+.1f %% of the step (%+.1f .. %+.1f), %s of %s, %s\n", 100*a.Effect,
				100*(a.Effect-half), 100*(a.Effect+half), wording.Plural(a.Blocks, "block"), a.Config,
				e.At.Format(time.DateOnly))
			text.WriteString(rowOf(f, a, e.Comm, e.NCCL, machineCondition(e.Machine)))
		}
	}
	return text.String()
}

// rowOf is the row of learned.csv for an arm. release and condition may be empty: for all.
func rowOf(f trial.Factor, a trial.Arm, comm nccl.Comm, release, condition string) string {
	return fmt.Sprintf("%s,%d,%d,%s,%s,%d,%d,%d,%s,%s\n", f.Coll, f.Min, f.Max, a.Algo, a.Proto, cmp.Or(a.Channels, -1),
		comm.Nodes, comm.Ranks, release, condition)
}

// machineCondition is the condition of rows that were learned on a machine, by its fingerprint. "": the machine is not
// known, and no condition could hold there.
func machineCondition(fingerprint string) string {
	if fingerprint == "" {
		return ""
	}
	return fmt.Sprintf("topo.fingerprint == '%s'", fingerprint)
}

// with returns a version with a row for each factor whose arm is not NCCL's choice. It comes after the rows of base.
func (l *learning) with(base *policyfile.Version, factors []trial.Factor, arms []int) (*policyfile.Version, error) {
	rows := ""
	for i, k := range arms {
		if k > 0 {
			rows += rowOf(factors[i], factors[i].Arms[k], l.comm, "", "")
		}
	}
	return l.extended(base, []byte(rows))
}

// extended returns a version with rows of learned.csv after its own.
func (l *learning) extended(base *policyfile.Version, rows []byte) (*policyfile.Version, error) {
	if len(rows) == 0 {
		return base, nil
	}
	b, err := policyfile.DecodeBundle(base.Content())
	if err != nil {
		return nil, err
	}
	if b.Added.Name == "" {
		b.Added = policyfile.Source{Name: LearnedFile, Text: []byte(learnedHeader)}
	}
	b.Added.Text = slices.Concat(b.Added.Text, rows)
	content := b.Encode()
	return l.loader.Decode(content, agree.DigestOf(content), telemetry.Log{})
}

// withLearned returns a version with the rows of learned.csv after its own. Where the file cannot be used, it is the
// version itself.
func (l *learning) withLearned(v *policyfile.Version) *policyfile.Version {
	path := l.path(LearnedFile)
	if l.rows == nil {
		text, err := safefile.Within(l.timeouts, path, learnLimit, func() ([]byte, error) {
			return safefile.ReadOwned(path, l.trust, policyfile.MaxLiveBytes)
		})
		if err == nil {
			l.rows, err = l.usable(text)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.log.Warnf("%s is not used: %v", path, safefile.Reason(err))
		}
		l.rows = append([]byte{}, l.rows...)
	}
	extended, err := l.extended(v, l.rows)
	if err != nil {
		l.log.Warnf("%s is not used: %v", path, err)
		return v
	}
	return extended
}

// usable returns the rows of learned.csv that are for this machine; an error if it has only others, or cannot be read.
// They lose the condition that says so: one version goes to all ranks, and a node on which a port is down has another
// fingerprint. The machine of the rank that offers the version decides.
func (l *learning) usable(text []byte) (rows []byte, err error) {
	all, ours := bytes.CutPrefix(text, []byte(learnedHeader))
	if !ours {
		return nil, fmt.Errorf("its first line is not %q, as releases after 0.2.0 write it (a policy of "+
			"your own belongs into %s)", strings.TrimSpace(learnedHeader), EnvConfigFile)
	}
	here := machineCondition(l.loader.Fingerprint())
	used, others := 0, 0
	for line := range bytes.Lines(all) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) > 0 && line[0] != '#' {
			row, isHere := bytes.CutSuffix(line, []byte(","+here))
			if !isHere {
				others++
				continue
			}
			used, line = used+1, append(slices.Clip(row), ',')
		}
		rows = append(append(rows, line...), '\n')
	}
	if used == 0 && others > 0 {
		return nil, fmt.Errorf("it has %s, and none for this machine (needed: when is %s)",
			wording.Plural(others, "row"), wording.Quote(here))
	}
	return rows, nil
}
