package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/redact"
)

// environment is what NCCL makes of a process's environment: it adds the variables of
// its own files, which win over nothing that is set.
type environment struct {
	process []string // as the process has it
	vars    map[string]setting
	// confs are NCCL's files, in the order in which it reads them.
	confs []confFile
	// ignored is ~/.nccl.conf where NCCL_CONF_FILE makes NCCL pass it over.
	ignored string
}

// setting is the value of a variable and where it comes from.
type setting struct {
	value string
	file  string // "" for the environment itself
	line  int
}

// confFile is a file of variables for NCCL.
type confFile struct {
	path    string
	named   bool // by NCCL_CONF_FILE
	err     error
	entries []confEntry
}

// confEntry is one line NAME=VALUE, blanks and all.
type confEntry struct {
	name string
	setting
	beaten bool // it was set before
}

const confVariable = "NCCL_CONF_FILE" // since NCCL 2.23.4

// readEnvironment reads as NCCL's src/misc/param.cc does: first the user's file, then
// the machine's.
func readEnvironment(process []string, home, machineConf string) *environment {
	e := &environment{process: process, vars: map[string]setting{}}
	for _, v := range process {
		if name, value, ok := strings.Cut(v, "="); ok {
			e.vars[name] = setting{value: value}
		}
	}
	userConf := ""
	if home != "" {
		userConf = filepath.Join(home, ".nccl.conf")
	}
	if named := e.get(confVariable); named != "" {
		if _, err := os.Stat(userConf); userConf != "" && err == nil && userConf != named {
			e.ignored = userConf
		}
		e.add(confFile{path: named, named: true})
	} else if userConf != "" {
		e.add(confFile{path: userConf})
	}
	e.add(confFile{path: machineConf})
	return e
}

func (e *environment) add(c confFile) {
	text, err := cli.ReadRegular(c.path)
	if errors.Is(err, fs.ErrNotExist) && !c.named {
		return
	}
	c.err = err
	c.entries = confEntries(c.path, string(text))
	for i := range c.entries {
		entry := &c.entries[i]
		if _, entry.beaten = e.vars[entry.name]; !entry.beaten {
			e.vars[entry.name] = entry.setting
		}
	}
	e.confs = append(e.confs, c)
}

// confEntries reads the lines of a file. NCCL takes each as it is: a blank before the
// equals sign belongs to the name, and quotes to the value.
func confEntries(path, text string) (entries []confEntry) {
	const longest = 1023
	for i, line := range strings.Split(text, "\n") {
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		entries = append(entries, confEntry{name: name[:min(len(name), longest)],
			setting: setting{value: value[:min(len(value), longest)], file: path, line: i + 1}})
	}
	return entries
}

func (e *environment) get(name string) string { return e.vars[name].value }

// show is a variable's value for a message, with its file if it comes from one, and
// without a password.
func (e *environment) show(name string) string {
	s := e.vars[name]
	s.value = redact.URL(s.value)
	if s.file != "" {
		return fmt.Sprintf("%s=%s (%s:%d)", name, s.value, s.file, s.line)
	}
	return fmt.Sprintf("%s=%s", name, s.value)
}

// names lists the variables that are set, sorted.
func (e *environment) names() []string {
	var names []string
	for name := range e.vars {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

const (
	tunerPrefix    = "NCCL_TUNER_"
	pluginVariable = tunerPrefix + "PLUGIN" // NCCL's
)

// isTunerVariable reports whether NAME=VALUE or a name is for tuners.
func isTunerVariable(v string) bool { return strings.HasPrefix(v, tunerPrefix) }
