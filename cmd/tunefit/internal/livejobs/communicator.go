package livejobs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// Communicator is what status shows of a communicator, and what status --json prints: its records, and what this
// machine adds to them.
type Communicator struct {
	agree.Communicator
	Rendezvous string    `json:"rendezvous"`
	Job        string    `json:"job,omitempty"` // the rendezvous' folder below the one that was named
	Name       string    `json:"communicator"`  // its id, as the plugin's log has it
	Ended      bool      `json:"ended"`         // no rank does anything with it any more
	Version    string    `json:"version"`       // in force
	Content    string    `json:"content"`
	Since      time.Time `json:"since,omitzero"`
	// Policy and Model are the files that its ranks read, as far as this machine knows.
	Policy string `json:"policy,omitempty"`
	Model  string `json:"model,omitempty"`
	// CommName is what the program calls it on all ranks. "": nothing, or not the same, or not known.
	CommName string    `json:"comm_name,omitempty"`
	Members  []member  `json:"members"`
	Frozen   bool      `json:"frozen"` // the version stays for good
	Changes  []*change `json:"changes"`
	// Comparison is what the job compares, or has compared last; nil: nothing.
	Comparison *trial.Conclusion `json:"comparison,omitempty"`
	// Learning is what the job has learned so far; nil: it does not learn, or compares what it has learned.
	Learning *trial.Evidence `json:"learning,omitempty"`
	// Asked is how often NCCL has asked, in a view; nil: no rank here writes metrics.
	Asked *asked `json:"asked,omitempty"`
	// RefusedFiles are those of Policy and Model that the ranks refuse as they are now, in a view.
	RefusedFiles []refusedFile `json:"refused_files,omitempty"`

	files        *policyfile.Bundle // what the version is made from; nil if not known
	read         policyfile.Bundle  // the latest known content of the files that the ranks read
	noComparison error              // why the comparison cannot be read
	pending      *change
	frozen       *change   // the one that prevents all later ones
	inForce      uint64    // the change that brought the version in force, 0 for the start version
	refused      []*change // those since then whose records are still there
}

// member is a slot and the process that owns it.
type member struct {
	agree.Slot
	Rank             *int           `json:"rank,omitempty"` // nil: not known
	identity.Process                // zero: the record names none
	Life             identity.State `json:"life"`
}

// change is a change and what its records mean.
type change struct {
	agree.Change
	State   string `json:"state"`                   // pending, committed, refused
	Missing []int  `json:"missing_slots,omitempty"` // of a pending one: who has not acknowledged
	finding        // of a refused one
}

// finding says what keeps a change from coming, or a file from being used, and what to do about it.
type finding struct {
	Why    string `json:"why,omitempty"`
	Remedy string `json:"remedy,omitempty"` // "": nothing, or another finding says it
}

// refuse is an error that says what to do.
func refuse(remedy, format string, args ...any) error {
	return errors.New(finding{fmt.Errorf(format, args...).Error(), remedy}.String())
}

// String indents all lines but the first: a record with several must not look like other findings.
func (f finding) String() string {
	text := f.Why
	if f.Remedy != "" {
		text += todo + f.Remedy
	}
	return strings.ReplaceAll(text, "\n", "\n  ")
}

// todo begins the line that says what to do.
const todo = ".\nWhat to do: "

const (
	pending   = "pending"
	committed = "committed"
	refused   = "refused"
)

// newCommunicator reads a communicator's records; bundle returns what a version is made from, nil if not known.
func newCommunicator(rendezvous string, records agree.Communicator,
	bundle func(agree.VersionID) *policyfile.Bundle) *Communicator {
	version, since := records.InForce()
	c := &Communicator{Communicator: records, Rendezvous: rendezvous, Name: fmt.Sprintf("%#x", records.ID),
		Version: version.EffectDigest, Content: version.Content, Since: since, CommName: records.Name(),
		Members: []member{}, Changes: []*change{}, files: bundle(version)}
	for _, v := range records.Versions() {
		if b := bundle(v); b != nil {
			c.read.Policy, c.read.Model = later(c.read.Policy, b.Policy), later(c.read.Model, b.Model)
		}
	}
	for _, s := range records.Slots {
		m := member{Slot: s, Life: identity.Unknown}
		if rank := identity.ParseRank(s.Identity); rank >= 0 {
			m.Rank = &rank
		}
		var err error
		if m.Process, err = identity.Parse(s.Identity); err == nil {
			m.Life = m.State()
		}
		c.Members = append(c.Members, m)
	}
	for _, from := range records.Changes {
		x, d := &change{Change: from, State: refused}, from.Decision
		c.Changes = append(c.Changes, x)
		switch {
		case d == nil:
			x.State, c.pending = pending, x
			for _, m := range c.Members {
				if !from.Acks[m.Index] {
					x.Missing = append(x.Missing, m.Index)
				}
			}
			continue
		case d.Commit:
			x.State, c.refused, c.inForce = committed, nil, x.K
			continue
		case !d.Frozen():
			c.refused = append(c.refused, x)
		case c.frozen == nil:
			c.frozen, c.Frozen = x, true
		}
		d.Abort, d.Detail = clipped(d.Abort), clipped(d.Detail)
		x.finding = c.inWords(d)
	}
	// Ranks that have a start version and no slots yet are about to claim them.
	c.Ended = len(c.Members) > 0 || !c.Newest.IsZero() && c.quiet() > agree.JoinLimit
	c.Ended = c.Ended && !slices.ContainsFunc(c.Members, func(m member) bool { return !m.gone() })
	c.Policy, c.Model = c.paths()
	if c.Note != nil {
		c.noComparison = c.readNote(c.Note)
	}
	return c
}

// readNote reads what the rank that compares or learns has left last.
func (c *Communicator) readNote(text []byte) (err error) {
	if c.Learning, c.Comparison, err = trial.Read("record", text); c.Comparison != nil {
		found := c.Comparison
		found.A.Name, found.B.Name = clipped(found.A.Name), clipped(found.B.Name)
	}
	return err
}

// later returns the text of a file that ranks read in a later version. They name their files at the start. A version
// without that file, or of another one, is what they compare it with.
func later(known, found policyfile.Source) policyfile.Source {
	if known.Name == "" || found.Name == known.Name {
		return found
	}
	return known
}

// clipped cuts a text from a record: whoever wrote it may have made it long.
func clipped[T ~string](text T) T {
	const most = 500
	if len(text) <= most {
		return text
	}
	return text[:most] + "..."
}

func (m member) String() string {
	if m.PID == 0 {
		return "a process without a name"
	}
	return m.Process.String()
}

// gone reports that this rank does nothing any more.
func (m member) gone() bool { return m.Left || m.Life == identity.Dead }

// place is the rank, or the rank index if the rank is not known.
func (m member) place() string {
	if m.Rank != nil {
		return fmt.Sprintf("rank %d", *m.Rank)
	}
	return fmt.Sprintf("rank index %d", m.Index)
}

// names lists members for a line.
func names(members []member) string {
	list := make([]string, len(members))
	for i, m := range members {
		state := ""
		switch {
		case m.Left:
			state = ", has ended the communicator"
		case m.Life == identity.Dead, m.Life == identity.Stopped:
			state = ", " + string(m.Life)
		}
		list[i] = fmt.Sprintf("%s (%s%s)", m, m.place(), state)
	}
	return few(list)
}

// changes reports that a change is proposed, and that the ranks can reach it.
func (c *Communicator) changes() bool { return c.pending != nil && !c.Ended }

// quiet is how long nothing was recorded.
func (c *Communicator) quiet() time.Duration { return time.Since(c.Newest) }

// which returns the members for which is returns true.
func (c *Communicator) which(is func(member) bool) (some []member) {
	for _, m := range c.Members {
		if is(m) {
			some = append(some, m)
		}
	}
	return some
}

// lives returns the members whose process is in a state, and that have not ended the communicator.
func (c *Communicator) lives(state identity.State) []member {
	return c.which(func(m member) bool { return m.Life == state && !m.Left })
}

func (c *Communicator) left() []member { return c.which(func(m member) bool { return m.Left }) }

// missing returns who has not acknowledged the pending change.
func (c *Communicator) missing() []member {
	return c.which(func(m member) bool { return slices.Contains(c.pending.Missing, m.Index) })
}

// here reports whether a rank on this machine still has the communicator.
func (c *Communicator) here() bool {
	return len(c.lives(identity.Running))+len(c.lives(identity.Stopped)) > 0
}

// hosts returns where the ranks are, each host once.
func (c *Communicator) hosts() (hosts []string) {
	for _, m := range c.Members {
		if m.Host != "" {
			hosts = append(hosts, m.Host)
		}
	}
	return distinct(hosts)
}

// isToCompare reports whether the job is to compare versions: the rank of the first slot does so, its identity says it.
func (c *Communicator) isToCompare() bool {
	if len(c.Slots) == 0 || c.Slots[0].Index != 0 {
		return false
	}
	words := strings.Fields(c.Slots[0].Identity)
	return slices.Contains(words, tuner.EnvCompare) || slices.Contains(words, tuner.EnvCanary)
}

// comparing reports whether the job compares two versions now.
func (c *Communicator) comparing() bool {
	return c.Comparison != nil && c.Comparison.State == trial.Running && !c.Ended
}

// paths returns where the policy file and the model file are that the ranks read; "" if this machine does not know.
func (c *Communicator) paths() (policy, model string) {
	policy, model = c.read.Policy.Name, c.read.Model.Name
	i := slices.IndexFunc(c.Members, func(m member) bool { return !m.gone() && m.Life != identity.Unknown })
	if i < 0 {
		return policy, model
	}
	m := c.Members[i]
	path := func(name, variable string) string {
		name = cmp.Or(name, m.Getenv(variable)) // a start version without a usable file names none
		if path, ok := m.Path(name); ok {
			return path
		}
		return name
	}
	return path(policy, tuner.EnvConfigFile), path(model, tuner.EnvModelFile)
}

// commName names a communicator and its job.
type commName struct {
	Rendezvous   string `json:"rendezvous"`
	Job          string `json:"job,omitempty"` // see Communicator.Job
	Communicator string `json:"communicator"`
}

func (c *Communicator) name() commName { return commName{c.Rendezvous, c.Job, c.Name} }

// job names the job in a list of jobs.
func (n commName) job() string { return cmp.Or(n.Job, n.Rendezvous) }

// prefix begins a line about one of the job's communicators. It is "" where the named rendezvous is the job's own.
func (n commName) prefix() string {
	if n.Job == "" {
		return ""
	}
	return "job " + n.Job + ": "
}

func (n commName) String() string { return n.prefix() + n.Communicator }

// listOf lists communicators by their jobs, for a line.
func listOf(all []commName) string {
	var jobs []string
	for _, job := range cli.Groups(all, func(n commName) string { return n.Rendezvous }) {
		var names []string
		for _, n := range job {
			names = append(names, n.Communicator)
		}
		jobs = append(jobs, job[0].prefix()+few(names))
	}
	return cli.Few(jobs, 8, "; ")
}
