package livejobs

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
)

// writeStatus prints a line for each communicator, and below what a person should
// know beyond that.
func writeStatus(w io.Writer, all []communicator) error {
	var text bytes.Buffer
	place := ""
	var tw *cli.Table
	for i := range all {
		c := &all[i]
		if tw == nil || c.place.Name != place {
			if tw != nil {
				tw.Flush()
				fmt.Fprintln(&text)
			}
			place = c.place.Name
			fmt.Fprintf(&text, "rendezvous %s\n", place)
			tw = cli.NewTable(&text)
			tw.Row("communicator", "ranks", "on", "version", "since", "policy", "change")
		}
		tw.Row(c.name(), joined(c), site(c), fmt.Sprintf("%.12s", cmp.Or(c.version.Meaning, "-")), moment(c.since), files(c),
			standing(c))
	}
	if tw != nil {
		tw.Flush()
	}
	for i := range all {
		for _, note := range notes(&all[i]) {
			fmt.Fprintf(&text, "\n%s: %s\n", all[i].name(), note)
		}
	}
	for _, note := range append(processNotes(all), fileNotes(all)...) {
		fmt.Fprintf(&text, "\n%s\n", note)
	}
	_, err := cli.Printable{Writer: w}.Write(text.Bytes())
	return err
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

func joined(c *communicator) string {
	if len(c.members) < c.Ranks {
		return fmt.Sprintf("%d of %d", len(c.members), c.Ranks)
	}
	return fmt.Sprint(c.Ranks)
}

func site(c *communicator) string {
	switch hosts := c.hosts(); len(hosts) {
	case 0:
		return "-"
	case 1:
		return hosts[0]
	default:
		return cli.CountOf(len(hosts), "host")
	}
}

func files(c *communicator) string {
	policy, model := c.paths()
	switch {
	case policy == "" && model == "":
		return "-"
	case model == "":
		return policy
	case policy == "":
		return model
	}
	return policy + " + " + model
}

// standing says in a few words where a communicator stands with its next change.
func standing(c *communicator) string {
	switch {
	case c.over():
		return "ended"
	case !c.asked():
		return "none: NCCL asks nothing about one rank"
	case c.frozen != nil:
		return "never again"
	case len(c.dead()) > 0:
		return fmt.Sprintf("impossible: %s dead", cli.CountOf(len(c.dead()), "rank"))
	case len(c.left()) > 0:
		return "ending"
	case c.pending != nil && len(c.missing()) == 0:
		return fmt.Sprintf("to %.12s: all have acknowledged", c.pending.Proposal.Meaning)
	case c.pending != nil:
		return fmt.Sprintf("to %.12s: %d of %d acknowledged", c.pending.Proposal.Meaning, c.Ranks-len(c.missing())-(c.Ranks-len(c.members)), c.Ranks)
	case len(c.members) < c.Ranks:
		return "not yet: ranks are missing"
	case len(c.refused) > 0:
		return "refused"
	}
	return "-"
}
