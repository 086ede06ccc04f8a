package bench

import (
	"maps"
	"regexp"
	"strings"
)

// command is a line of a log that started a run of nccl-tests.
type command struct {
	line      string
	program   string            // as all_reduce_perf
	variables map[string]string // that it sets, by name without NCCL_
	passed    string            // one that chooses or changes NCCL's choice, and whose value the line does not tell
	args      settings          // options of nccl-tests
	cpuTime   bool              // -C 1
}

var (
	// prompt is what stands before a command: "$ ", "bash-5.1$ ", "me@node:~$ ", "[me@node ~]# ", "+ " of a trace, and
	// "Running: ".
	prompt = regexp.MustCompile(`^(?:\++ |[\w.-]+[$#%>] |[$%>] |` +
		`(?:\([\w.-]+\) ?)?\[?[\w.-]+@[\w.-]+[^$#%>"'=]*[$#%>] ?|[A-Z][\w ]{0,30}: )`)
	// commandStart is how a command begins: with a variable, a path or a word. Most sentences begin with a capital.
	commandStart = regexp.MustCompile(`^(?:[A-Za-z_]\w*=|["'(]?[a-z./~$])`)
	// program is one of nccl-tests where a command can stand: nothing but options and redirections follow.
	program = regexp.MustCompile(`(?:^|[\s/"'])([a-z_]+_perf)(?:_mpi)?["')]*(?:$|\s+(?:$|-|[0-9]?[<>]|[$#&]))`)
	// elsewhere is standard output that goes to a file, which is not this one.
	elsewhere      = regexp.MustCompile(`(?:^|[^0-9&>])1?>>?\s*[^&\s>]`)
	onlyAssignment = regexp.MustCompile(`^[A-Za-z_]\w*=\S*$|^[A-Za-z_]\w*='[^']*'$`)
	cpuTime        = regexp.MustCompile(`\s(?:-C\s*|--report_cputime[= ])1\b`)
)

// parseCommand reads a line of a shell that runs one program of nccl-tests, whose output follows.
func parseCommand(text string) (c command, ok bool) {
	if !commandStart.MatchString(text) || !strings.Contains(text, "_perf") {
		return c, false
	}
	parts, at := splitCommands(text), -1
	for i, part := range parts {
		if program.MatchString(part) {
			if at >= 0 {
				return c, false // the output is of two programs
			}
			at = i
		}
	}
	if at < 0 {
		return c, false
	}
	m := program.FindStringSubmatchIndex(parts[at])
	before, after := parts[at][:m[2]], parts[at][m[3]:]
	if elsewhere.MatchString(after) {
		return c, false
	}
	c = command{line: text, program: parts[at][m[2]:m[3]], variables: map[string]string{}, args: argsOf(after),
		cpuTime: cpuTime.MatchString(after)}
	for _, part := range parts[:at] {
		if _, exported, is := strings.Cut(part, "export "); is {
			maps.Copy(c.variables, assignments(exported))
		}
	}
	maps.Copy(c.variables, assignments(before))
	for name, value := range c.variables {
		if strings.Contains(value, "$") {
			delete(c.variables, name)
			if isHint(name, value) {
				c.passed = name
			}
		}
	}
	return c, true
}

// splitCommands splits a line of a shell at ;, |, || and &&, outside of quotes. The text of sh -c is split, too.
func splitCommands(line string) (parts []string) {
	start, quote := 0, byte(0)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			if !strings.HasSuffix(line[:i], "-c ") {
				quote = c
			}
		case c == ';' || c == '|' || c == '&' && strings.HasPrefix(line[i:], "&&"):
			parts = append(parts, line[start:i])
			start = i + 1
		}
	}
	return append(parts, strings.TrimPrefix(line[start:], "&"))
}
