package doctor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// answerLine is a finding of a node, or a part of one, in a line of its own. Launchers put names before lines and mix
// those of several nodes, so each line names its process and which line of how many it is.
type answerLine struct {
	Process string `json:"tunefit"` // the node's name, a blank, the process's number
	At      int    `json:"at"`      // from 0
	Of      int    `json:"of"`
	Finding        // without Check: the finding of the line before goes on
}

var answerStart = regexp.MustCompile(`\{"tunefit":"((\S+) [0-9]+)",`)

// answerRoom is the size of a finding in a line. srun cuts lines at 1024 bytes, and mixes the pieces.
const answerRoom = 800

// WriteAnswer prints what this node found, for Answers.
func WriteAnswer(w io.Writer, findings []Finding) error {
	host, err := os.Hostname()
	host = cmp.Or(os.Getenv("SLURMD_NODENAME"), host) // what the site calls it
	var all []Finding
	for _, f := range findings {
		all = append(all, f.parts()...)
	}
	for i := 0; i < len(all) && err == nil; i++ {
		err = json.NewEncoder(w).Encode(answerLine{fmt.Sprint(host, " ", os.Getpid()), i, len(all), all[i]})
	}
	return err
}

// parts halves the texts of a finding until each part has room in a line.
func (f Finding) parts() []Finding {
	if text, err := json.Marshal(f); err != nil || len(text) <= answerRoom {
		return []Finding{f}
	}
	found, do := []rune(f.Found), []rune(f.Do)
	rest := Finding{Found: string(found[len(found)/2:]), Do: string(do[len(do)/2:])}
	f.Found, f.Do = string(found[:len(found)/2]), string(do[:len(do)/2])
	return append(f.parts(), rest.parts()...)
}

// Answers collects the answers of nodes.
type Answers struct {
	complete []answer
	begun    map[string][]*Finding // by process: of each line; nil: it has not come
}

type answer struct {
	host     string
	findings []Finding
}

// Count is how many processes have answered.
func (a *Answers) Count() int { return len(a.complete) }

// Read takes a line of a launcher's output, and says whether it belongs to an answer.
func (a *Answers) Read(line string) bool {
	m := answerStart.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	var l answerLine
	text := line[strings.Index(line, m[0]):] // its end may be the launcher's
	sound := json.NewDecoder(strings.NewReader(text)).Decode(&l) == nil && 0 <= l.At && l.At < l.Of && l.Of <= 1000
	process, begun := m[1], a.begun[m[1]]
	if sound && len(begun) != l.Of {
		begun = make([]*Finding, l.Of)
	}
	if a.begun == nil {
		a.begun = map[string][]*Finding{}
	}
	if a.begun[process] = begun; !sound { // the line may come once more
		return false
	}
	if begun[l.At] = &l.Finding; slices.Contains(begun, nil) {
		return true
	}
	var all []Finding
	for _, f := range begun {
		if last := len(all) - 1; f.Check == "" && last >= 0 {
			all[last].Found += f.Found
			all[last].Do += f.Do
		} else {
			all = append(all, *f)
		}
	}
	a.complete = append(a.complete, answer{m[2], all})
	delete(a.begun, process)
	return true
}
