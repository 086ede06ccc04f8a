package livejobs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// View shows the communicators of a rendezvous.
type View struct {
	Warnings   io.Writer // for what JSON and Prometheus' format have no place for
	Rendezvous string    // "": $NCCL_TUNER_RENDEZVOUS, else the default ones
	All        bool      // also those that have ended
	Watch      bool      // again and again
	JSON       bool
	Prometheus bool
}

// rendezvous is the one that is named, or the one of the environment, or "" for the default ones.
func rendezvous(named string) string { return cmp.Or(named, os.Getenv(tuner.EnvRendezvous)) }

// Run prints until it is done, or interrupted.
func (f *View) Run(out io.Writer) error {
	o := newObserver(rendezvous(f.Rendezvous))
	view := func(ctx context.Context, w io.Writer) error {
		all, err := o.look(ctx)
		if err != nil {
			return err
		}
		return f.write(w, all, o.unseen)
	}
	if !f.Watch {
		return view(context.Background(), out)
	}
	// SIGPIPE ends it, too: then nobody reads any more.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	defer stop()
	return watch(ctx, out, view)
}

// write prints the communicators that are asked for.
func (f *View) write(w io.Writer, all []*Communicator, unseen []error) error {
	// watch steers the terminal with the rest of its text, so this is escaped here. Without --watch cli.Output escapes
	// it again, which changes nothing.
	w = cli.Printable{Writer: w}
	shown, leftovers := []*Communicator{}, 0
	for _, c := range all {
		if f.All || !c.Ended {
			c.Asked = c.readAsked()
			shown = append(shown, c)
		} else {
			leftovers++
		}
	}
	switch {
	case f.Prometheus:
		writeUnseen(f.Warnings, unseen)
		return writePrometheus(w, shown, len(unseen))
	case f.JSON:
		writeUnseen(f.Warnings, unseen)
		return cli.WriteJSON(w, shown)
	}
	if err := writeStatus(w, shown); err != nil {
		return err
	}
	if len(shown) == 0 {
		name := rendezvous(f.Rendezvous)
		fmt.Fprintf(w, "no live communicator whose policy can change %s\n%s", where(name), elsewhere(name))
	}
	writeUnseen(w, unseen)
	if leftovers > 0 {
		fmt.Fprintf(w, "%s that %s ended left records behind (--all lists them, tunefit gc removes them)\n",
			wording.Plural(leftovers, "communicator"), wording.Verb(leftovers, "has", "have"))
	}
	return nil
}

func where(rendezvous string) string {
	if rendezvous == "" {
		return "in /dev/shm of this machine"
	}
	return "in " + rendezvous
}

// elsewhere says, where nothing was found, which jobs could not be.
func elsewhere(rendezvous string) string {
	switch {
	case isToCome(rendezvous):
		return rendezvous + " does not exist yet: jobs that meet elsewhere were not looked for\n"
	case rendezvous == "":
		return "jobs that have " + tuner.EnvRendezvous + " set meet elsewhere and were not looked for: " +
			"name their folder, or the one above, with --rendezvous\n"
	}
	return ""
}

// writeUnseen says what could not be looked at.
func writeUnseen[T any](w io.Writer, unseen []T) {
	for _, what := range unseen {
		fmt.Fprintf(w, "not looked at: %v\n", what)
	}
}

// refreshEvery is how often a watched view is made anew.
const refreshEvery = time.Second

// watch prints a view again and again until ctx ends: in place on a terminal, and elsewhere once for each change, with
// the time.
func watch(ctx context.Context, out io.Writer, view func(context.Context, io.Writer) error) error {
	inPlace := cli.IsTerminal(out)
	last := ""
	for {
		var text bytes.Buffer
		err := view(ctx, &text)
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil
		}
		if err != nil { // what cannot be seen now may be seen later
			fmt.Fprintln(cli.Printable{Writer: &text}, err)
		}
		now := time.Now().Format(time.TimeOnly)
		show := ""
		switch {
		case inPlace:
			// Each line is written over the old one: nothing flickers.
			body := "tunefit status --watch   " + now + "   (Ctrl-C ends)\n\n" + text.String()
			show = "\x1b[H" + strings.ReplaceAll(body, "\n", "\x1b[K\n") + "\x1b[J"
		case text.String() == last:
		default:
			show = now + "\n" + text.String() + "\n"
		}
		if err := cli.Steer(out, show); err != nil {
			return err
		}
		last = text.String()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(refreshEvery):
		}
	}
}
