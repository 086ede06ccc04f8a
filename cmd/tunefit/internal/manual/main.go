// Command manual writes the manual pages of tunefit, one for each command, and the completions for shells, into the
// folders below DIR where man and shells look. It is no part of tunefit: make install runs it.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

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
	pages, err := manual(root)
	if err != nil {
		return err
	}
	all := map[string][]byte{}
	for name, text := range pages {
		all["man/man1/"+name] = text
	}
	for name, complete := range map[string]func(*bytes.Buffer) error{
		"bash-completion/completions/tunefit": func(w *bytes.Buffer) error { return root.GenBashCompletionV2(w, true) },
		"zsh/site-functions/_tunefit":         func(w *bytes.Buffer) error { return root.GenZshCompletion(w) },
		"fish/vendor_completions.d/tunefit.fish": func(w *bytes.Buffer) error {
			return root.GenFishCompletion(w, true)
		},
	} {
		var text bytes.Buffer
		if err := complete(&text); err != nil {
			return err
		}
		all[name] = text.Bytes()
	}
	for name, text := range all {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// manual returns the page of each command, by file name.
func manual(root *cobra.Command) (map[string][]byte, error) {
	pages := map[string][]byte{}
	var all func(*cobra.Command) error
	all = func(cmd *cobra.Command) error {
		if !cmd.IsAvailableCommand() && cmd.HasParent() {
			return nil
		}
		for _, below := range cmd.Commands() {
			if err := all(below); err != nil {
				return err
			}
		}
		text, err := page(cmd)
		pages[strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"] = text
		return err
	}
	return pages, all(root)
}

// page makes the manual page of a command: cobra/doc's, of the help text, with options as --help prints them, and with
// the sections that it lacks.
func page(cmd *cobra.Command) ([]byte, error) {
	help := cmd.Long
	defer func() { cmd.Long = help }()
	description, exit := exitStatus(help)
	cmd.Long, cmd.DisableAutoGenTag = markdown(description), true
	never := time.Time{} // the same sources give the same page
	header := doc.GenManHeader{Date: &never, Source: "nccl-tuner-go " + cmd.Root().Version}
	var out bytes.Buffer
	if err := doc.GenMan(cmd, &header, &out); err != nil {
		return nil, err
	}
	text := strings.Replace(out.String(), ` "Jan 0001" `, ` "" `, 1)
	text = strings.Replace(text, "\n.SH EXAMPLE\n", "\n.SH EXAMPLES\n", 1)

	var commands []entry
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			commands = append(commands, entry{name: below.Name(), meaning: below.Short})
		}
	}
	var options []entry
	for line := range strings.Lines(cmd.NonInheritedFlags().FlagUsages()) {
		if name, meaning, ok := strings.Cut(strings.TrimSpace(line), "   "); ok {
			options = append(options, entry{name: name, meaning: strings.TrimSpace(meaning)})
		}
	}
	name := strings.ReplaceAll(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "), " ", "-")
	about := func(all []entry) []entry {
		return slices.DeleteFunc(slices.Clone(all), func(e entry) bool {
			return !slices.Contains(strings.Fields(e.of), name)
		})
	}
	sections := section("COMMANDS", commands) + section("OPTIONS", options) + ".SH EXIT STATUS\n" + roff(exit) + "\n" +
		section("ENVIRONMENT", about(environment)) + section("FILES", about(files))

	before, rest, ok := strings.Cut(text, ".SH OPTIONS\n")
	at := regexp.MustCompile(`(?m)^\.SH `).FindStringIndex(rest)
	if !ok || at == nil {
		return nil, fmt.Errorf("%s: cobra's page is not as expected", cmd.CommandPath())
	}
	return []byte(before + sections + strings.TrimRight(rest[at[0]:], "\n") + ", \\fBlibnccl-tuner-go(7)\\fP\n"), nil
}

// section writes a section; nothing if it has no entries.
func section(title string, entries []entry) string {
	if len(entries) == 0 {
		return ""
	}
	text := ".SH " + title + "\n"
	for _, e := range entries {
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

// markdown writes a help text as cobra/doc wants it: paragraphs, and, line by line, lists and tables, whose lines begin
// with blanks.
func markdown(text string) string {
	var out []string
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		var block strings.Builder
		before := false
		for line := range strings.Lines(paragraph) {
			indented := strings.HasPrefix(line, "  ")
			if indented != before {
				block.WriteString("\n")
			}
			if before = indented; indented {
				block.WriteString("    " + line)
			} else {
				block.WriteString(escaped(line))
			}
		}
		out = append(out, block.String())
	}
	return strings.Join(out, "\n\n")
}

// escaped makes markdown leave a text as it is.
func escaped(text string) string {
	return regexp.MustCompile("[\\\\`*_{}\\[\\]<>#|~&!]").ReplaceAllString(text, `\$0`)
}

// roff writes a text as it is.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	return regexp.MustCompile(`(?m)^[.']`).ReplaceAllString(text, `\&$0`)
}
