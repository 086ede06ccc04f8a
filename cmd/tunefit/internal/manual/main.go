// Command manual writes the manual pages of tunefit, one for each command, and the completions for shells, into the
// folders below DIR where man and shells look. It is no part of tunefit: make install runs it.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/command"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manual DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

// write makes all files below dir.
func write(dir string) error {
	root := command.Root()
	all := manual(root)
	var bash, zsh, fish bytes.Buffer
	err := errors.Join(root.GenBashCompletionV2(&bash, true), root.GenZshCompletion(&zsh),
		root.GenFishCompletion(&fish, true))
	all["bash-completion/completions/tunefit"] = bash.String()
	all["zsh/site-functions/_tunefit"] = zsh.String()
	all["fish/vendor_completions.d/tunefit.fish"] = fish.String()
	for name, text := range all {
		path := filepath.Join(dir, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
	}
	return err
}

// manual returns the page of a command and of each below it, by file name.
func manual(cmd *cobra.Command) map[string]string {
	pages := map[string]string{"man/man1/" + pageName(cmd) + ".1": page(cmd)}
	for _, below := range subcommands(cmd) {
		maps.Copy(pages, manual(below))
	}
	return pages
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func subcommands(cmd *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands()),
		func(c *cobra.Command) bool { return !c.IsAvailableCommand() })
}

// page makes the manual page of a command, of its help text and flags, with the sections of man-pages(7).
func page(cmd *cobra.Command) string {
	cmd.InitDefaultHelpFlag()
	name := pageName(cmd)
	description, exit := exitStatus(cmp.Or(cmd.Long, cmd.Short))
	var commands, options []entry
	also := "\\fBlibnccl\\-tuner\\-go\\fP(7)"
	for _, below := range subcommands(cmd) {
		commands = append(commands, entry{name: below.Name(), meaning: below.Short})
		also = fmt.Sprintf("\\fB%s\\fP(1), ", roff(pageName(below))) + also
	}
	if cmd.HasParent() {
		also = fmt.Sprintf("\\fB%s\\fP(1), ", roff(pageName(cmd.Parent()))) + also
	}
	for line := range strings.Lines(cmd.NonInheritedFlags().FlagUsages()) {
		if name, meaning, ok := strings.Cut(strings.TrimSpace(line), "   "); ok {
			options = append(options, entry{name: name, meaning: strings.TrimSpace(meaning)})
		}
	}
	short := strings.TrimPrefix(name, cmd.Root().Name()+"-")
	about := func(all []entry) []entry {
		return slices.DeleteFunc(slices.Clone(all), func(e entry) bool {
			return !slices.Contains(strings.Fields(e.of), short)
		})
	}
	text := fmt.Sprintf(".TH %q 1 \"\" %q\n.nh\n.ad l\n", strings.ToUpper(name), "nccl-tuner-go "+cmd.Root().Version) +
		".SH NAME\n" + roff(name) + " \\- " + roff(cmd.Short) + "\n" +
		".SH SYNOPSIS\n\\fB" + roff(cmd.UseLine()) + "\\fP\n" +
		".SH DESCRIPTION\n" + paragraphs(description) + entries("COMMANDS", commands) + entries("OPTIONS", options) +
		".SH EXIT STATUS\n" + roff(exit) + "\n" +
		entries("ENVIRONMENT", about(environment)) + entries("FILES", about(files))
	if cmd.Example != "" {
		text += ".SH EXAMPLES\n.EX\n" + roff(cmd.Example) + "\n.EE\n"
	}
	return text + ".SH SEE ALSO\n" + also + "\n"
}

// entries writes a section; nothing if it has no entries.
func entries(title string, all []entry) string {
	if len(all) == 0 {
		return ""
	}
	text := ".SH " + title + "\n"
	for _, e := range all {
		text += fmt.Sprintf(".TP\n\\fB%s\\fP\n%s\n", roff(e.name), roff(e.meaning))
	}
	return text
}

// exitStatus takes what a help text says of exit codes out of it.
func exitStatus(help string) (rest, exit string) {
	exit = "0 if nothing is wrong, 1 if something is, or if the work could not be done."
	var paragraphs []string
	for paragraph := range strings.SplitSeq(help, "\n\n") {
		if said, is := strings.CutPrefix(paragraph, "Exit code: "); is {
			exit = said
		} else {
			paragraphs = append(paragraphs, paragraph)
		}
	}
	return strings.Join(paragraphs, "\n\n"), exit + " 2 if the command line is wrong. 130 after Ctrl-C."
}

// paragraphs writes a help text: lines that begin with blanks, of lists and tables, stay lines.
func paragraphs(text string) string {
	text = ".PP\n" + strings.ReplaceAll(roff(text), "\n\n", "\n.PP\n") + "\n"
	return regexp.MustCompile(`(?m)(^  .*\n)+`).ReplaceAllString(text, ".EX\n$0.EE\n")
}

// roff writes a text as it is.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	return regexp.MustCompile(`(?m)^[.']`).ReplaceAllString(text, `\&$0`)
}
