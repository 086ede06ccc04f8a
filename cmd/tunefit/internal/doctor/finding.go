package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// severity says how bad a finding is.
type severity int8

const (
	isFine    severity = iota
	isNote             // worth knowing
	isWarning          // not what somebody wanted, most likely
	isError            // does not work
)

func (s severity) String() string { return [...]string{"ok", "note", "warning", "error"}[s] }

// MarshalText implements encoding.TextMarshaler.
func (s severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *severity) UnmarshalText(text []byte) error {
	for *s = isFine; *s <= isError; *s++ {
		if s.String() == string(text) {
			return nil
		}
	}
	return fmt.Errorf("unknown severity %q", text)
}

// Finding is what an examination found.
type Finding struct {
	Check    string   `json:"check"`
	Severity severity `json:"severity"`
	Found    string   `json:"found"`
	Do       string   `json:"do,omitempty"`
	// Unknown: it could not be examined.
	Unknown bool `json:"unknown,omitempty"`
	// Nodes have found it, where several were examined and others have not.
	Nodes []string `json:"nodes,omitempty"`
}

func fine(format string, args ...any) Finding {
	return Finding{Severity: isFine, Found: fmt.Sprintf(format, args...)}
}

func noted(do, format string, args ...any) Finding {
	return Finding{Severity: isNote, Found: fmt.Sprintf(format, args...), Do: do}
}

func warned(do, format string, args ...any) Finding {
	return Finding{Severity: isWarning, Found: fmt.Sprintf(format, args...), Do: do}
}

func failed(do, format string, args ...any) Finding {
	return Finding{Severity: isError, Found: fmt.Sprintf(format, args...), Do: do}
}

func unknown(format string, args ...any) Finding {
	return Finding{Severity: isNote, Unknown: true, Found: fmt.Sprintf(format, args...)}
}

// Failed reports whether something is wrong, or could not be examined.
func Failed(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity >= isWarning || f.Unknown })
}

// Write prints the worst first, and what to do below each.
func Write(w io.Writer, findings []Finding) error {
	sorted := slices.Clone(findings)
	slices.SortStableFunc(sorted, func(a, b Finding) int { return int(b.Severity) - int(a.Severity) })
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Check))
	}
	var counts [isError + 1]int
	indent := strings.Repeat(" ", len("warning  ")+width+2)
	var b strings.Builder
	for _, f := range sorted {
		counts[f.Severity]++
		if len(f.Nodes) > 0 {
			f.Found = hostList(f.Nodes) + ": " + f.Found
		}
		fmt.Fprintf(&b, "%-7s  %-*s  %s\n", f.Severity, width, f.Check, strings.ReplaceAll(f.Found, "\n", "\n"+indent))
		if f.Do != "" {
			fmt.Fprintf(&b, "%s-> %s\n", indent, f.Do)
		}
	}
	verdict := "sound"
	if counts[isError]+counts[isWarning] > 0 {
		verdict = wording.Plural(counts[isError], "error") + ", " + wording.Plural(counts[isWarning], "warning")
	} else if Failed(findings) {
		verdict = "nothing wrong, but not all could be examined"
	}
	fmt.Fprintf(&b, "%s\n", verdict)
	_, err := io.WriteString(w, b.String())
	return err
}
