package doctor

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// An answer is what one node found, as lines that pass through a launcher. Launchers put names before lines and mix
// those of several nodes, so each line names its process and which piece of how many it is. No line is so long that a
// launcher cuts it; srun cuts at 1024 bytes.
const (
	answerMark  = "tunefit-answer"
	answerPiece = 800
)

var answerLine = regexp.MustCompile(answerMark + ` (\S+) ([0-9]+) ([0-9]+)/([0-9]+) ([A-Za-z0-9+/=]+)`)

// WriteAnswer prints what this node found, for Answers.
func WriteAnswer(w io.Writer, findings []finding) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	host = cmp.Or(os.Getenv("SLURMD_NODENAME"), host) // what the site calls it
	plain, err := json.Marshal(findings)
	if err != nil {
		return err
	}
	text := base64.StdEncoding.EncodeToString(plain)
	var lines bytes.Buffer // most launchers pass on in one piece what is written at once
	pieces := (len(text) + answerPiece - 1) / answerPiece
	for i := range pieces {
		fmt.Fprintf(&lines, "%s %s %d %d/%d %s\n", answerMark, host, os.Getpid(), i+1, pieces,
			text[i*answerPiece:min((i+1)*answerPiece, len(text))])
	}
	_, err = w.Write(lines.Bytes())
	return err
}

// Answers collects the answers of nodes.
type Answers struct {
	complete []answer
	begun    map[string]*pieces // of the processes' answers
}

// pieces are those of an answer that have come.
type pieces struct {
	of  int
	all map[int]string // by their number, from 1
}

type answer struct {
	host     string
	findings []finding
}

// Count is how many processes have answered.
func (a *Answers) Count() int { return len(a.complete) }

// Read takes a line of a launcher's output, and says whether it belongs to an answer.
func (a *Answers) Read(line string) bool {
	m := answerLine.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	host, piece := m[1], m[5]
	at, err1 := strconv.Atoi(m[3])
	of, err2 := strconv.Atoi(m[4])
	if err1 != nil || err2 != nil || at < 1 || at > of || of > 1000 {
		return false
	}
	if a.begun == nil {
		a.begun = map[string]*pieces{}
	}
	process := host + " " + m[2]
	begun := a.begun[process]
	if begun == nil || begun.of != of {
		begun = &pieces{of, map[int]string{}}
		a.begun[process] = begun
	}
	if begun.all[at] = piece; len(begun.all) < of {
		return true
	}
	var text strings.Builder
	for i := range of {
		text.WriteString(begun.all[i+1])
	}
	var findings []finding
	plain, err := base64.StdEncoding.DecodeString(text.String())
	if err != nil || json.Unmarshal(plain, &findings) != nil {
		clear(begun.all) // the launcher damaged it: it may come once more
		return true
	}
	a.complete = append(a.complete, answer{host, findings})
	delete(a.begun, process)
	return true
}
