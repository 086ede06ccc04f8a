package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/command"
)

// everyCommand calls look with each command and its page.
func everyCommand(t *testing.T, look func(cmd *cobra.Command, page string)) {
	t.Helper()
	root := command.Root()
	pages := manual(root)
	var all func(*cobra.Command)
	all = func(cmd *cobra.Command) {
		look(cmd, pages["man/man1/"+pageName(cmd)+".1"])
		for _, below := range cmd.Commands() {
			if below.IsAvailableCommand() {
				all(below)
			}
		}
	}
	all(root)
}

// printed is what a reader of a page sees, with blanks in place of line breaks.
func printed(page string) string {
	page = regexp.MustCompile(`(?m)^\.(TP|PP|EX|EE|nh|ad l|nf|fi|RS|RE|ti.*)$`).ReplaceAllString(page, "")
	page = regexp.MustCompile(`\\f[A-Z]`).ReplaceAllString(page, "")
	page = strings.NewReplacer(`\\`, `\`, `\-`, "-", `\&`, "", `\e`, `\`).Replace(page)
	return strings.Join(strings.Fields(page), " ")
}

// No word of a help text is lost or changed on the way through roff.
func TestPagesSayWhatHelpSays(t *testing.T) {
	everyCommand(t, func(cmd *cobra.Command, page string) {
		text := printed(page)
		said := func(what string) {
			if what = strings.Join(strings.Fields(what), " "); !strings.Contains(text, what) {
				t.Errorf("%s: the page does not say %q:\n%s", cmd.CommandPath(), what, page)
			}
		}
		for paragraph := range strings.SplitSeq(cmd.Long, "\n\n") {
			said(strings.TrimPrefix(paragraph, "Exit code: "))
		}
		said(cmd.Short)
		said(cmd.UseLine())
		said(cmd.Example)
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			_, usage := pflag.UnquoteUsage(f)
			if !f.Hidden {
				said(usage)
			}
		})
	})
}

// The sections are those of man-pages(7), in its order.
func TestSections(t *testing.T) {
	order := []string{"NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES",
		"SEE ALSO"}
	everyCommand(t, func(cmd *cobra.Command, page string) {
		var titles []string
		at := 0
		for _, title := range regexp.MustCompile(`(?m)^\.SH (.*)$`).FindAllStringSubmatch(page, -1) {
			titles = append(titles, title[1])
			next := slices.Index(order, title[1])
			if next < at {
				t.Errorf("%s: section %s: %q", cmd.CommandPath(), title[1], titles)
			}
			at = next
		}
		for _, title := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"} {
			if !slices.Contains(titles, title) {
				t.Errorf("%s: no section %s", cmd.CommandPath(), title)
			}
		}
		if n := strings.Count(printed(page), "if the command line is wrong"); n != 1 {
			t.Errorf("%s: it says %d times what a wrong command line does", cmd.CommandPath(), n)
		}
	})
}

// Variables that stand in for an option are on the page, and every entry is about a command and a variable that there is.
func TestEntries(t *testing.T) {
	variables, err := os.ReadFile(filepath.FromSlash("../../../../docs/VARIABLES.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	everyCommand(t, func(cmd *cobra.Command, page string) {
		names[strings.ReplaceAll(strings.TrimPrefix(cmd.CommandPath(), "tunefit "), " ", "-")] = true
		_, section, _ := strings.Cut(page, ".SH ENVIRONMENT\n")
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			for _, name := range regexp.MustCompile(`\$([A-Z_]+)`).FindAllStringSubmatch(f.Usage, -1) {
				if !strings.Contains(section, name[1]) {
					t.Errorf("%s: ENVIRONMENT does not name %s, which --%s does", cmd.CommandPath(), name[1], f.Name)
				}
			}
		})
	})
	for _, e := range slices.Concat(environment, files) {
		for _, name := range strings.Fields(e.of) {
			if !names[name] {
				t.Errorf("%s: there is no command %s", e.name, name)
			}
		}
		for _, name := range regexp.MustCompile(`NCCL_TUNER_[A-Z_]*[A-Z]`).FindAllString(e.name+" "+e.meaning, -1) {
			if !strings.Contains(string(variables), "`"+name) {
				t.Errorf("docs/VARIABLES.md has no %s", name)
			}
		}
	}
}

// What roff would take for its own reaches the reader as it is, and tables stay tables.
func TestPageOfStrangeText(t *testing.T) {
	const text = "Read *all* of <file> and _some_ of [b](c), `d`, a\\*b, ~~e~~, 'f' -- 1 & 2!\nand <b>g</b>:\n" +
		"  --x    one\n  --y    two\nthe end\n\n# no heading\n\n'quoted\n.dotted"
	root := &cobra.Command{Use: "tunefit", Version: "1"}
	cmd := &cobra.Command{Use: "x", Short: "Short", Long: text, Run: func(*cobra.Command, []string) {}}
	root.AddCommand(cmd)
	made := page(cmd)
	plain := strings.ReplaceAll(made, `\-`, "-")
	if got, want := printed(made), strings.Join(strings.Fields(text), " "); !strings.Contains(got, want) ||
		!strings.Contains(plain, "\n  --x    one\n  --y    two\n") || strings.Contains(plain, "\n.dotted") {
		t.Errorf("%s\nwant %s", made, want)
	}
}
