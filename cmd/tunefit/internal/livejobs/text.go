package livejobs

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
)

// writeStatus prints a line for each communicator, and below what a person should
// know beyond that.
func writeStatus(w io.Writer, all []*Communicator) error {
	var text bytes.Buffer
	place := ""
	var tw *cli.Table
	counted := slices.ContainsFunc(all, func(c *Communicator) bool { return c.Asked != nil })
	row := func(asked string, cells ...any) {
		if counted {
			cells = slices.Insert(cells, len(cells)-1, any(asked))
		}
		tw.Row(cells...)
	}
	for _, c := range all {
		if tw == nil || c.Rendezvous != place {
			if tw != nil {
				tw.Flush()
				fmt.Fprintln(&text)
			}
			place = c.Rendezvous
			fmt.Fprintf(&text, "rendezvous %s\n", place)
			tw = cli.NewTable(&text)
			row("asked", "communicator", "ranks", "on", "version", "since", "policy", "change")
		}
		row(c.Asked.String(), c.Name, joined(c), site(c), fmt.Sprintf("%.12s", cmp.Or(c.Version, "-")),
			moment(c.Since), files(c), standing(c))
	}
	if tw != nil {
		tw.Flush()
	}
	for _, c := range all {
		for _, note := range notes(c) {
			fmt.Fprintf(&text, "\n%s: %s\n", c.Name, note)
		}
	}
	for _, note := range slices.Concat(processNotes(all), fileNotes(all), quietNotes(all)) {
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

func joined(c *Communicator) string {
	if len(c.Members) < c.Ranks {
		return fmt.Sprintf("%d of %d", len(c.Members), c.Ranks)
	}
	return fmt.Sprint(c.Ranks)
}

func site(c *Communicator) string {
	switch hosts := c.hosts(); len(hosts) {
	case 0:
		return "-"
	case 1:
		return hosts[0]
	default:
		return plural.Of(len(hosts), "host")
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
	case !c.asked():
		return "none: NCCL asks nothing about one rank"
	case c.Frozen:
		return "never again"
	case dead > 0:
		return fmt.Sprintf("impossible: %s dead", plural.Of(dead, "rank"))
	case len(c.left()) > 0:
		return "ending"
	case c.pending != nil && len(c.pending.Missing) == 0:
		return fmt.Sprintf("to %.12s: all have acknowledged", c.pending.Version)
	case c.pending != nil:
		return fmt.Sprintf("to %.12s: %d of %d acknowledged", c.pending.Version, len(c.Members)-len(c.pending.Missing),
			c.Ranks)
	case len(c.Members) < c.Ranks:
		return "not yet: ranks are missing"
	case len(c.refused) > 0:
		return "refused"
	}
	return "-"
}
