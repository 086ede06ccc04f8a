package bench

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Origin is where the label of a sample (its algorithm, protocol and channels)
// comes from. A greater one is trusted more.
type Origin int

const (
	originNone      Origin = iota // nothing says so
	originAsked                   // nothing does for sure, and the user is asked
	originVariables               // NCCL_ALGO and the like, of the run's own command or in its log
	originMeasured                // NCCL's log of its choices, or RCCL's measured columns
	originFields                  // the fields of a CSV file
	originUser                    // Options
	NumOrigins
)

var originNames = [NumOrigins]string{"default", "asked", "variables", "measured", "fields", "options"}

func (o Origin) String() string { return originNames[o] }

// Format is what a file turned out to be.
type Format string

const (
	formatText     Format = "nccl-tests text"
	formatJSON     Format = "nccl-tests JSON"
	formatSweep    Format = "sweep CSV"
	formatReport   Format = "rccl-tests report"
	formatOptimize Format = "optimize_config CSV"
)

// isLog reports whether a program printed the file as it measured.
func (f Format) isLog() bool { return f == formatText || f == formatJSON }

// Options say what a file may leave out. The zero value knows nothing.
type Options struct {
	// Coll is the collective of rows that do not name theirs; nil: not known.
	Coll *nccl.Coll
	// Comm is the communicator, unless NCCL's log tells another one.
	nccl.Comm
	// Config is what ran, whatever else is said of it. Its parts are Unknown, and 0 channels, where the caller does
	// not say; nil: all of them.
	Config *nccl.Config
	// Default says that NCCL chose where nothing tells what ran, whatever hints at something else.
	Default bool
	// With are variables of NCCL that the caller tells; of an empty value: it was not set.
	With map[string]string
	// LogOf returns NCCL's log of a process, as host:pid, where it is in a file of its own; nil: there is none.
	LogOf func(process string) []byte
}

// Result is what one file holds. Everything that was read is either in Samples
// or counted in Rejected.
type Result struct {
	File     string
	Format   Format
	Samples  []Sample
	Rejected []Rejection // by the line of the first
	Notes    []Note      // contradictions and doubts, by line
	Rows     int         // of a CSV file
	// Failed are configurations that did not run, as samples without a time. One without a size ran at none. One with
	// a size did not run there: another configuration or an unknown one did, or the run broke off.
	Failed []Sample
	// NotOffered is what NCCL does not have, by its log and our library's: samples without a size, channels and a time.
	// Runs may have measured it nevertheless, with NCCL_ALGO or NCCL_PROTO.
	NotOffered []Sample
	// MostChannels is what the communicator of the last run has.
	MostChannels MostChannels
	// Failure is what a log says of a run that did not come to its end.
	Failure string
	// Labels counts the samples by where the most trusted part of their
	// algorithm, protocol and channels comes from.
	Labels [NumOrigins]int
	// Assumed counts the samples that are taken for NCCL's choice because nothing tells what ran.
	Assumed int

	starts     int             // runs with rows
	unknown    []mention       // settings that are mentioned only
	notOffered map[Sample]bool // what NotOffered has
}

// rejected counts the times that are rejected for one of the reasons; none: for any.
func (r *Result) rejected(reasons ...string) (times int) {
	for _, rej := range r.Rejected {
		if reasons == nil || slices.Contains(reasons, rej.Reason) {
			times += rej.Count
		}
	}
	return times
}

// Wrong counts the times that are rejected because the run computed wrong results.
func (r *Result) Wrong() (times int) { return r.rejected(rejectFailed, rejectFailedRun) }

// NotLoaded reports whether NCCL did not load our tuner, which a run was told to use.
func (r *Result) NotLoaded() bool { return r.rejected(rejectNotLoaded) > 0 }

// mostMalformed is the share of rows that may be unreadable. With more, what is left
// is not what was measured: a whole algorithm may be missing.
const mostMalformed = 0.03

// Doubt is an error where too many rows of a CSV file cannot be read.
func (r *Result) Doubt() error {
	rows := r.rejected(rejectMalformed, rejectTruncated)
	if r.Rows == 0 || float64(rows) <= mostMalformed*float64(r.Rows) {
		return nil
	}
	text := fmt.Sprintf("%s: %d of %d rows cannot be read", r.File, rows, r.Rows)
	for _, n := range r.Notes {
		text += "\n" + n.String()
	}
	return errors.New(text)
}

// NumRejected returns how many times were rejected for any reason.
func (r *Result) NumRejected() int { return r.rejected() }

// mostSamples is how many times of one file are kept, in some 2 GB. Tests lower it.
var mostSamples = 4_000_000

// tooMany returns an error if there are more, with the rows of a run that has not ended, and with what did not run, of
// which a header of a few bytes may name thousands of sizes.
func (r *Result) tooMany(rows int) error {
	if len(r.Samples)+rows+len(r.Failed) <= mostSamples {
		return nil
	}
	return fmt.Errorf("more than %d measurements in one file (needed: smaller files)", mostSamples)
}

// errNotSweep ends the message about a file that has none of the formats.
var errNotSweep = errors.New("no measurements in it (allowed: the output of nccl-tests or rccl-tests, their JSON, a " +
	"sweep CSV, the CSV of optimize_config.py)")

// note keeps a remark, each once, and says where it stopped keeping them.
func (r *Result) note(line int, format string, args ...any) {
	n := Note{r.File, line, fmt.Sprintf(format, args...)}
	if len(r.Notes) > mostNotes || slices.ContainsFunc(r.Notes, func(o Note) bool { return o.Text == n.Text }) {
		return
	}
	if len(r.Notes) == mostNotes {
		n.Text = "more remarks are left out"
	}
	r.Notes = append(r.Notes, n)
}

func (r *Result) reject(line, count int, reason string) {
	i := slices.IndexFunc(r.Rejected, func(rej Rejection) bool { return rej.Reason == reason })
	switch {
	case count <= 0:
	case i >= 0:
		r.Rejected[i].Count += count
	default:
		r.Rejected = append(r.Rejected, Rejection{reason, count, line})
	}
}
