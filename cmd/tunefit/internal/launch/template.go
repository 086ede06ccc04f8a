package launch

// A template is a command for the shell that the user writes, with fields such as {command} and {hosts} in it. It
// starts ranks where no other launcher here can. Each value has to reach the shell as one piece, so what is written
// for a field depends on the quotes that the template has around it.

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// quotes are the shell's quotes that are open at a place of a template.
type quotes byte

const (
	bare   quotes = 0
	single quotes = '\''
	double quotes = '"'
)

// part is a piece of a template: text, and the field after it.
type part struct {
	text  string
	field string // "": none, in the last part
	in    quotes
}

// fields are the names of all fields. From hosts on, each says how many ranks to start: a template needs one of these.
var fields = []string{"command", "env", "hosts", "nodes", "ranks", "ranks_per_node"}

// fieldPattern also matches the shell's ${name}, which is not a field.
var fieldPattern = regexp.MustCompile(`\{[A-Za-z_]+\}`)

// parseTemplate splits a command for the shell into text and fields.
func parseTemplate(text string, withHosts bool) (parts []part, err error) {
	named := func(name string) bool {
		return slices.ContainsFunc(parts, func(p part) bool { return p.field == name })
	}
	rest, state, escaped := text, bare, false // escaped: the text ends with a backslash
	for at := 0; ; {
		place := fieldPattern.FindStringIndex(rest[at:])
		if place == nil {
			parts = append(parts, part{text: rest})
			state, escaped = quotesAfter(state, rest)
			break
		}
		start, end := at+place[0], at+place[1]
		if start > 0 && rest[start-1] == '$' {
			at = end
			continue
		}
		field := rest[start+1 : end-1]
		if !slices.Contains(fields, field) {
			field = field[:min(len(field), 64)]
			return nil,
				fmt.Errorf("launcher %s: unknown field {%s} (allowed: {%s}; what is for the shell goes with blanks, "+
					"{ %s; })", wording.Quote(text), field, strings.Join(fields, "}, {"), field)
		}
		state, _ = quotesAfter(state, rest[:start])
		parts = append(parts, part{rest[:start], field, state})
		rest, at = rest[end:], 0
	}
	switch {
	case state != bare || escaped:
		return nil, fmt.Errorf("launcher %s: a quote is not closed", wording.Quote(text))
	case !named("command"):
		return nil, fmt.Errorf("launcher %s: there is no {command}, where the program goes (allowed: %s)",
			wording.Quote(text), allowed)
	case !slices.ContainsFunc(fields[2:], named):
		return nil,
			fmt.Errorf("launcher %s: nothing says how many ranks it starts (needed: {ranks}, {ranks_per_node}, "+
				"{nodes} or {hosts})", wording.Quote(text))
	case named("hosts") && !withHosts:
		return nil, fmt.Errorf("launcher %s: there are no hosts for {hosts}; name them",
			wording.Quote(text))
	}
	return parts, nil
}

// quotesAfter returns the quotes that are open after a text if state was open before it. escaped: the text ends with a
// backslash that quotes what comes next.
func quotesAfter(state quotes, text string) (after quotes, escaped bool) {
	for i := range len(text) {
		c := text[i]
		switch {
		case escaped:
			escaped = false
		case c == '\\' && state != single:
			escaped = true
		case state == bare && (c == '\'' || c == '"'):
			state = quotes(c)
		case state != bare && c == byte(state):
			state = bare
		}
	}
	return state, escaped
}

// fill returns the template's command for a program.
func (l *Launcher) fill(p Program) string {
	hasEnv := slices.ContainsFunc(l.template, func(t part) bool { return t.field == "env" })
	values := map[string]string{
		"command":        cli.ShellWords(l.program(p, !hasEnv)),
		"env":            cli.ShellAssignments(p.Env),
		"nodes":          strconv.Itoa(p.Nodes),
		"ranks":          strconv.Itoa(p.Nodes * p.RanksPerNode),
		"ranks_per_node": strconv.Itoa(p.RanksPerNode),
		"hosts":          strings.Join(l.Hosts[:min(p.Nodes, len(l.Hosts))], ","),
	}
	var b strings.Builder
	for _, t := range l.template {
		b.WriteString(t.text)
		value := values[t.field]
		switch t.in {
		case single:
			value = strings.ReplaceAll(value, "'", `'\''`)
		case double:
			value = inDouble.Replace(value)
		}
		b.WriteString(value)
	}
	return b.String()
}

// inDouble escapes what the shell reads between double quotes.
var inDouble = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`")
