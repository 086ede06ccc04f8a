package livejobs

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// called is the communicator's id, with the name that the program gave it.
func called(c *Communicator) string {
	if c.CommName == "" {
		return c.Name
	}
	return fmt.Sprintf("%s %q", c.Name, c.CommName)
}

// writeStatus prints a line for each job, if there are several, and one for each communicator. Below it prints what a
// person should know beyond that.
func writeStatus(w io.Writer, all []*Communicator) error {
	var text bytes.Buffer
	counted := slices.ContainsFunc(all, func(c *Communicator) bool { return c.Asked != nil })
	jobs := groups(all, func(c *Communicator) string { return c.Rendezvous })
	if len(jobs) > 1 {
		writeJobs(&text, jobs)
	}
	for i, job := range jobs {
		if i > 0 || len(jobs) > 1 {
			fmt.Fprintln(&text)
		}
		fmt.Fprintf(&text, "rendezvous %s\n", job[0].Rendezvous)
		tw := cli.NewTable(&text)
		row := func(asked string, cells ...any) {
			if counted {
				cells = slices.Insert(cells, len(cells)-1, any(asked))
			}
			tw.Row(cells...)
		}
		row("asked", "communicator", "ranks", "on", "version", "since", "policy", "change")
		for _, c := range job {
			row(c.Asked.String(), called(c), joined(c), site(c.hosts()), shown(c.Version), moment(c.Since),
				files(c), standing(c))
		}
		tw.Flush()
	}
	for _, c := range all {
		for _, note := range notes(c) {
			fmt.Fprintf(&text, "\n%s: %s\n", c.name(), note)
		}
	}
	for _, note := range slices.Concat(processNotes(all), fileNotes(all), quietNotes(all)) {
		fmt.Fprintf(&text, "\n%s\n", note)
	}
	_, err := w.Write(text.Bytes())
	return err
}

// writeJobs prints a line for each job.
func writeJobs(w io.Writer, jobs [][]*Communicator) {
	tw := cli.NewTable(w)
	tw.Row("job", "communicators", "on", "version", "policy", "change")
	for _, job := range jobs {
		var hosts, versions, policies, changes []string
		for _, c := range job {
			hosts, versions, policies = append(hosts, c.hosts()...), append(versions, shown(c.Version)),
				append(policies, files(c))
			if kind, _, _ := strings.Cut(standing(c), ":"); kind != "-" {
				changes = append(changes, kind)
			}
		}
		var change []string
		for _, alike := range groups(changes, func(kind string) string { return kind }) {
			change = append(change, fmt.Sprintf("%d %s", len(alike), alike[0]))
		}
		tw.Row(job[0].name().job(), fmt.Sprint(len(job)), site(distinct(hosts)), one(versions, "version"),
			one(policies, "file"), cmp.Or(strings.Join(change, ", "), "-"))
	}
	tw.Flush()
}

func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// one returns what all have in common, else how many there are.
func one(list []string, what string) string {
	if list = distinct(list); len(list) == 1 {
		return list[0]
	}
	return wording.Plural(len(list), what)
}

func few(list []string) string { return cli.Few(list, 8, ", ") }

// moment is a time as a person reads it; the date is left out today.
func moment(t time.Time) string {
	now := time.Now()
	switch {
	case t.IsZero():
		return "-"
	case now.YearDay() == t.YearDay() && now.Year() == t.Year():
		return t.Format(time.TimeOnly)
	}
	return t.Format("2006-01-02 15:04")
}

func joined(c *Communicator) string {
	if len(c.Members) < c.Ranks {
		return fmt.Sprintf("%d of %d", len(c.Members), c.Ranks)
	}
	return fmt.Sprint(c.Ranks)
}

// shown is a version's name, as the log has it.
func shown(version string) string { return fmt.Sprintf("%.12s", cmp.Or(version, "-")) }

func site(hosts []string) string {
	switch len(hosts) {
	case 0:
		return "-"
	case 1:
		return hosts[0]
	default:
		return wording.Plural(len(hosts), "host")
	}
}

func files(c *Communicator) string {
	if c.Policy != "" && c.Model != "" {
		return c.Policy + " + " + c.Model
	}
	return cmp.Or(c.Policy, c.Model, "-")
}

// standing says in a few words how far a communicator's next change is.
func standing(c *Communicator) string {
	dead := len(c.lives(identity.Dead))
	switch {
	case c.Ended:
		return "ended"
	case c.Frozen:
		return "never again"
	case dead > 0:
		return fmt.Sprintf("impossible: %s dead", wording.Plural(dead, "rank"))
	case len(c.left()) > 0:
		return "ending"
	case c.pending != nil && len(c.pending.Missing) == 0:
		return fmt.Sprintf("to %.12s: all have acknowledged", c.pending.Proposal.Meaning)
	case c.pending != nil:
		return fmt.Sprintf("to %.12s: %d of %d acknowledged", c.pending.Proposal.Meaning, len(c.Members)-len(c.pending.Missing),
			c.Ranks)
	case len(c.Members) < c.Ranks:
		return "not yet: ranks are missing"
	case c.comparing():
		return "comparing"
	case len(c.refused) > 0:
		return "refused"
	}
	return "-"
}
