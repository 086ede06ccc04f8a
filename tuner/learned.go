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

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/atomicfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/fileowner"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/openregular"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// LearnedFile is the policy in the directory of NCCL_TUNER_LEARN that holds what jobs have proven.
const LearnedFile = "learned.csv"

// learnLimit bounds the wait for that directory, mostEvidence the size of a file in it.
const (
	learnLimit   = 2 * time.Second
	mostEvidence = 16 << 20
)

// kept is the directory of evidence as one communicator uses it.
type kept struct {
	plugin        *Plugin
	dir           string
	comm          nccl.Comm
	nccl, machine string // "": not known
	damaged       error  // what was wrong with evidence that was read
	warned        bool
}

// evidence returns the directory of evidence.
func (c *Comm) evidence() *kept {
	k := &kept{plugin: c.plugin, dir: c.settings.learn, comm: c.info.Comm, machine: c.plugin.loader.Fingerprint()}
	if c.info.NCCL != (nccl.Releases{}) {
		k.nccl = c.info.NCCL.String()
	}
	return k
}

// read returns the evidence in the directory by file, the oldest first. Other files, and damaged ones, are left out.
func (k *kept) read() (all []trial.Evidence, err error) {
	err = k.plugin.hung.Do(k.dir+" (evidence)", learnLimit, func() error {
		names, err := filepath.Glob(filepath.Join(k.dir, "*.json"))
		for _, name := range names {
			e, err := readEvidence(name)
			switch {
			case e.Format != trial.EvidenceFormat:
			case err != nil:
				k.damaged = fmt.Errorf("%s: %w", name, err)
			case e.NCCL == k.nccl && e.Machine == k.machine:
				all = append(all, e)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b trial.Evidence) int { return a.At.Compare(b.At) })
	return all, nil
}

func readEvidence(file string) (e trial.Evidence, err error) {
	text, err := openregular.Read(file, mostEvidence)
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	if err == nil {
		err = e.Check()
	}
	return e, err
}

// earlier returns the evidence to go on from, and which calls others have settled.
func (k *kept) earlier() (open []trial.Evidence, settled func(nccl.Coll, nccl.Range) bool) {
	all, _ := k.read()
	var learned []trial.Factor
	for _, e := range all {
		switch {
		case e.Comm != k.comm:
		case e.State == trial.Learned:
			learned = append(learned, e.Factors...)
		default:
			open = append(open, e)
		}
	}
	return open, func(coll nccl.Coll, sizes nccl.Range) bool {
		return slices.ContainsFunc(learned, func(f trial.Factor) bool {
			return f.Coll == coll && f.Holds(sizes)
		})
	}
}

// save writes evidence, and the rows of all that is proven where this is. What was proven stays: another communicator
// that tries the same may prove nothing.
func (k *kept) save(e trial.Evidence, log telemetry.Log) {
	err := k.plugin.hung.Do(k.dir, learnLimit, func() error {
		if err := os.MkdirAll(k.dir, 0o755); err != nil {
			return err
		}
		file := k.file(e.Factors)
		there, err := readEvidence(file)
		if err == nil && there.State == trial.Learned && e.State != trial.Learned {
			return nil
		}
		text, err := json.MarshalIndent(e, "", "\t")
		if err != nil {
			return err
		}
		return atomicfile.Write(file, append(text, '\n'))
	})
	if err == nil && e.State == trial.Learned {
		err = k.writeRows()
	}
	if err != nil && !k.warned {
		k.warned = true // once, not every ten blocks
		log.Warnf("%s=%s: what is learned is not written: %v", EnvLearn, k.dir, openregular.Reason(err))
	}
}

// file is one for all communicators that try the same on such a machine, as those of a job's tensor parallel groups do:
// they make the same steps.
func (k *kept) file(factors []trial.Factor) string {
	h := fnv.New64a()
	fmt.Fprintln(h, k.machine)
	for _, f := range factors {
		fmt.Fprintln(h, f.Coll, f.Min, f.Max, f.Arms[0].Config)
	}
	release := strings.NewReplacer(">=", "from-", "<=", "to-").Replace(cmp.Or(k.nccl, "unknown"))
	return filepath.Join(k.dir, fmt.Sprintf("learning-%dn-%dr-%s-%016x.json", k.comm.Nodes, k.comm.Ranks, release,
		h.Sum64()))
}

// writeRows writes the rows of all that is proven on this machine with this release. It writes them again if another
// rank has proven more meanwhile, so that none of two that write at the same time is lost.
func (k *kept) writeRows() error {
	for written := ""; ; {
		all, err := k.read()
		rows := LearnedPolicy(all)
		if err != nil || rows == written {
			return err
		}
		written = rows
		err = k.plugin.hung.Do(k.dir, learnLimit, func() error {
			return atomicfile.Write(filepath.Join(k.dir, LearnedFile), []byte(rows))
		})
		if err != nil {
			return err
		}
	}
}

// LearnedPolicy is the text of learned.csv: a row for each arm that evidence has proven, below a comment that says what
// it rests on.
func LearnedPolicy(all []trial.Evidence) string {
	text := learnedHeader
	for _, e := range all {
		if e.State != trial.Learned {
			continue
		}
		for _, f := range e.Factors {
			if i := slices.IndexFunc(f.Arms, func(a trial.Arm) bool { return a.Proven }); i >= 0 {
				text += provenRow(e, f, f.Arms[i])
			}
		}
	}
	return text
}

func provenRow(e trial.Evidence, f trial.Factor, a trial.Arm) string {
	return fmt.Sprintf("# %+.1f %% of the step (%+.1f .. %+.1f), %s of %s, %s, machine %s\n", 100*a.Effect,
		100*(a.Effect-2*a.Error), 100*(a.Effect+2*a.Error), plural.Of(a.Blocks, "block"), a.Config,
		e.At.Format(time.DateOnly), e.Machine) + rowOf(f, a, e.Comm, e.NCCL)
}

// withLearned returns a version with the rows of learned.csv after its own. Where the file cannot be used, it is the
// version itself.
func (c *Comm) withLearned(v *policyfile.Version) *policyfile.Version {
	path := filepath.Join(c.settings.learn, LearnedFile)
	if c.learned == nil {
		rows, err := c.readLearned(path)
		if err != nil {
			c.log.Warnf("%s is not used: %v", path, err)
		}
		c.learned = append([]byte{}, rows...)
	}
	extended, err := c.extended(v, c.learned)
	if err != nil {
		c.log.Warnf("%s is not used: %v", path, err)
		return v
	}
	return extended
}

// readLearned returns what follows the header of learned.csv; nothing if the rows are of another machine.
func (c *Comm) readLearned(path string) (rows []byte, err error) {
	var text []byte
	err = c.plugin.hung.Do(path, learnLimit, func() error {
		f, info, err := openregular.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := fileowner.CheckFile(info, c.settings.files.Trust); err != nil {
			return err
		}
		text, err = openregular.All(f, policyfile.MaxLiveBytes)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, openregular.Reason(err)
	}
	rows, ours := bytes.CutPrefix(text, []byte(learnedHeader))
	if !ours {
		return nil, fmt.Errorf("its first line is not %q, as the library writes it (a policy of your own belongs into "+
			"%s)", strings.TrimSpace(learnedHeader), EnvConfigFile)
	}
	for line := range bytes.Lines(rows) { // the comments above rows
		if _, of, named := bytes.Cut(line, []byte(", machine ")); named &&
			string(bytes.TrimSpace(of)) != c.plugin.loader.Fingerprint() {
			c.log.Infof("%s is not used: it is of another machine, %s", path, bytes.TrimSpace(of))
			return nil, nil
		}
	}
	if _, err := policy.ReadCSV(LearnedFile, text); err != nil {
		return nil, err
	}
	if n := len(rows); n > 0 && rows[n-1] != '\n' {
		rows = append(rows, '\n') // rows that are tried follow
	}
	return rows, nil
}
