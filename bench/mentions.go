package bench

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// mention is a setting of which a text speaks: in a command, an export, a manifest, a heading or a file's name. Whoever
// wrote it may have run something else in the end.
type mention struct {
	name  string // of a variable, or of an option as -R; empty: value is a word, as ring or collnet
	value string // empty: the text does not tell
	line  int    // 0: the name of the file
	// lasting: it speaks of all runs below, as an export and a manifest do.
	lasting bool
}

// String is the mention as the column of variables has it.
func (m mention) String() string {
	if m.name == "" {
		return m.value + unsure
	}
	return m.name + "=" + strings.ReplaceAll(m.value, " ", "_") + unsure
}

// chose reports whether the mention may have chosen instead of NCCL.
func (m mention) chose() bool { return m.name == "" || chooses.MatchString(m.name) }

// anyChose reports whether one of the settings may have chosen instead of NCCL.
func anyChose(unknown []mention) bool {
	return slices.ContainsFunc(unknown, func(m mention) bool { return m.chose() || m.name == directAccess })
}

// isUsual reports whether a mention is of what is so anyway.
func (m mention) isUsual() bool {
	if m.name == "NCCL_TUNER_PLUGIN" {
		return strings.EqualFold(m.value, "none")
	}
	o := optionNamed(m.name)
	return m.value == "0" && (strings.HasSuffix(m.name, "_DISABLE") || strings.Contains(m.name, "_MIN_")) ||
		o != nil && m.value == o.usual && m.value != "" || m.name == "-C"
}

// mentions are those since the last table, with the program that stands there, too.
type mentions struct {
	of      []mention
	open    string // a variable whose value a manifest has in its next line
	program string // as all_reduce_perf; "several": it is not clear which
}

var (
	// valued is what stands between a name and its value: =, and : and value: of YAML and JSON.
	valued  = regexp.MustCompile(`^(?:=|["']?\s*:\s*|["']?\s*,\s*["']?value["']?\s*:\s*)`)
	valueOf = regexp.MustCompile(`\bvalue["']?\s*:\s*(.*)`)
	// byBlank are words before a name whose value follows a blank.
	byBlank  = regexp.MustCompile(`(?:env|ENV) +$`)
	dropped  = regexp.MustCompile(`(?:\bunset|\s-u) +$`)
	lasting  = regexp.MustCompile(`^\W*(?:export|declare|setenv|env|ENV)\b|^\W*[A-Za-z_]\w*=\S*\s*$|:\s`)
	perfName = regexp.MustCompile(`(?:^|[\s/"'])([a-z_]+_perf)(?:_mpi)?(?:$|["')\s,;])`)
	// hinting are words that name a number of channels, as 8ch, or what else may choose.
	hinting = regexp.MustCompile(`^(?:n?ch(?:annels?)?[0-9]+|[0-9]+n?ch(?:annels?)?|collnet|sharp|mscclpp|msccl)$`)
	graphs  = regexp.MustCompile(`^(?:cuda)?graphs?$`)
	notWord = regexp.MustCompile(`[^a-z0-9]+`)
)

// scan finds the mentions in a line that is no row, no header and no line of NCCL's log. It reports whether there are
// any.
func (ms *mentions) scan(at int, line []byte) bool {
	before := len(ms.of)
	if name := ms.open; name != "" {
		value := ""
		if m := valueOf.FindSubmatch(line); m != nil {
			value = valueAt(string(m[1]))
		}
		ms.open = ""
		ms.add(mention{name, value, at, true})
		if value != "" {
			return true
		}
	}
	if bytes.Contains(line, []byte("_perf")) {
		ms.command(at, string(line[:min(len(line), longestRow)]))
	}
	if bytes.Contains(line, []byte("CCL_")) || bytes.Contains(line, []byte("FI_")) ||
		bytes.Contains(line, []byte("UCX_")) || bytes.Contains(line, []byte("CUDA_VISIBLE_DEVICES")) {
		ms.names(at, string(line[:min(len(line), longestRow)]))
	}
	const title = 5 // blanks; "a simple benchmark of our cluster" is none
	isShort, isMarked := bytes.Count(line, []byte(" ")) <= title, strings.IndexByte("#=*-", line[0]) >= 0
	if (isMarked || isShort && bytes.IndexByte(line, '=') < 0) && !named.Match(line) {
		for _, m := range hintsIn(string(line), at) {
			if isShort || strings.Contains(m.value, "+") {
				ms.add(m)
			}
		}
	}
	return len(ms.of) > before
}

// names finds the names of variables.
func (ms *mentions) names(at int, text string) {
	lasts := lasting.MatchString(text) && !perfName.MatchString(text)
	for _, m := range named.FindAllStringIndex(text, -1) {
		before, name, after := text[max(0, m[0]-16):m[0]], text[m[0]:m[1]], text[m[1]:]
		value := ""
		switch between := valued.FindString(after); {
		case between != "":
			value = valueAt(after[len(between):])
		case dropped.MatchString(before):
			continue
		case byBlank.MatchString(before):
			value = valueAt(strings.TrimLeft(after, " "))
		case strings.Trim(after, ` "',`) == "" && strings.Contains(text[:m[0]], "name"):
			ms.open = name
			continue
		}
		ms.add(mention{name, value, at, lasts})
	}
}

// command takes a line that names a program of nccl-tests, with its options.
func (ms *mentions) command(at int, line string) {
	for _, m := range perfName.FindAllStringSubmatchIndex(line, 8) {
		if name := line[m[2]:m[3]]; ms.program != "" && ms.program != name {
			ms.program = "several"
		} else {
			ms.program = name
		}
		ms.of = slices.DeleteFunc(ms.of, func(m mention) bool { return m.name != "" && m.name[0] == '-' })
		for name, value := range settingsOf(line[m[3]:], onCommand) {
			ms.add(mention{name, value, at, false})
		}
	}
}

const mostMentions = 64 // of one run: more of them tell no more

func (ms *mentions) add(m mention) {
	if m.name != "" && harmless.MatchString(m.name) && !chooses.MatchString(m.name) {
		return
	}
	i := slices.IndexFunc(ms.of, func(o mention) bool {
		return o.name == m.name && (m.name != "" || o.value == m.value)
	})
	switch {
	case i >= 0:
		m.lasting = m.lasting || ms.of[i].lasting
		ms.of[i] = m
	case len(ms.of) < mostMentions:
		ms.of = append(ms.of, m)
	}
}

// timesCPU reports whether a command has -C 1: it measures the CPU's time, which is of no use.
func (ms *mentions) timesCPU() bool {
	return slices.ContainsFunc(ms.of, func(m mention) bool { return m.name == "-C" && m.value != "0" })
}

// take hands the mentions over to a run, and keeps those that speak of later ones, too.
func (ms *mentions) take(into *mentions) {
	for _, m := range ms.of {
		into.add(m)
	}
	if ms.program != "" {
		into.program = ms.program
	}
	*ms = mentions{of: slices.DeleteFunc(ms.of, func(m mention) bool { return !m.lasting })}
}

// valueAt returns the value that text begins with; empty: a shell puts one there. In lists of variables, as in srun's
// --export, a comma may also begin the next one.
func valueAt(text string) string {
	text = text[:min(len(text), longestValue)]
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		text, _, _ = strings.Cut(text[1:], text[:1])
	} else {
		if i := strings.IndexAny(text, " \t\"'`;|&)}]"); i >= 0 {
			text = text[:i]
		}
		parts := strings.Split(text, ",")
		if next := slices.IndexFunc(parts, func(p string) bool { return strings.Contains(p, "=") }); next >= 0 {
			parts = parts[:next]
		}
		text = strings.TrimRight(strings.Join(parts, ","), ",")
	}
	if strings.ContainsAny(text, "$<>{}") {
		return ""
	}
	return text
}

// hintsIn returns what the words of a text name: algorithms, protocols, a number of channels and what else may choose,
// together as one mention, and CUDA graphs. Such words tell nothing for sure: no-nvls.log ran without NVLS.
func hintsIn(text string, line int) (of []mention) {
	var hints []string
	words := notWord.Split(strings.ToLower(text), -1)
	for i := 0; i < len(words) && len(hints) < 4; i++ {
		if i+1 < len(words) && isHint(words[i]+"_"+words[i+1]) { // nvls_tree
			hints = append(hints, words[i]+"_"+words[i+1])
			i++
		} else if isHint(words[i]) {
			hints = append(hints, words[i])
		} else if graphs.MatchString(words[i]) {
			of = []mention{{"-G", "", line, false}}
		}
	}
	if hints != nil {
		of = append(of, mention{"", strings.Join(hints, "+"), line, false})
	}
	return of
}

func isHint(word string) bool {
	_, isAlgo := nccl.Algos.Named(word)
	_, isProto := nccl.Protos.Named(word)
	return word != "" && (isAlgo || isProto || hinting.MatchString(word))
}

// hintsInName returns what the name of a file hints at.
func hintsInName(file string) []mention {
	base := filepath.Base(file)
	return hintsIn(strings.TrimSuffix(base, filepath.Ext(base)), 0)
}

const (
	longestValue = 256  // above the value of any of the variables, in bytes
	longestRow   = 4096 // of what is put together as one row
)
