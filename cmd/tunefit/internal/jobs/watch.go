package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
)

// refreshEvery is how often a watched view is made anew.
const refreshEvery = time.Second

// watch prints a view again and again until ctx ends: in place on a terminal, and
// elsewhere once for each change, with the time. For a program it prints each change
// and nothing else.
func watch(ctx context.Context, out io.Writer, program bool, view func(io.Writer) error) error {
	inPlace := cli.IsTerminal(out) && !program
	last := ""
	for {
		var text bytes.Buffer
		err := view(&text)
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			return nil
		case err != nil && program:
			return err
		case err != nil:
			// What cannot be seen now may be seen later; a person who watches decides.
			fmt.Fprintln(&text, err)
		}
		now := time.Now().Format(time.TimeOnly)
		show := ""
		switch {
		case inPlace:
			// Each line is written over the old one, so that nothing flickers.
			body := "tunefit status --watch   " + now + "   (Ctrl-C ends)\n\n" + text.String()
			show = "\x1b[H" + strings.ReplaceAll(body, "\n", "\x1b[K\n") + "\x1b[J"
		case text.String() == last:
		case program:
			show = text.String()
		default:
			show = now + "\n" + text.String() + "\n"
		}
		if _, err := io.WriteString(out, show); err != nil {
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
