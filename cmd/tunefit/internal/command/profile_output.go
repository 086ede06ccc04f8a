package command

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// profileView is a profile as it is printed.
type profileView struct {
	*profile.Profile
	scale    profile.Scale
	total    float64
	bins     []profile.SizeBin
	by       ask.Decider // the policy and the model to ask; empty: none
	outcomes map[profile.CallKind]ask.Outcome
}

func newProfileView(p *profile.Profile) *profileView {
	return &profileView{Profile: p, scale: p.Scale(), total: p.Total(), bins: p.SizeBins(),
		outcomes: map[profile.CallKind]ask.Outcome{}}
}

// of says what the shares are shares of.
func (v *profileView) of() string {
	return [...]string{"calls", "bytes of the communication", "communication time"}[v.scale.Weight]
}

// per says whether counts are per step or of the whole recording.
func (v *profileView) per() string {
	if v.scale.PerStep {
		return " a step"
	}
	return ""
}

// amount writes a weight.
func (v *profileView) amount(weight float64) string {
	if v.scale.Weight == profile.ByBytes {
		return about(weight)
	}
	return profile.Duration(weight)
}

// about writes a rounded number of bytes.
func about(bytes float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for bytes >= 1000 && i < len(units)-1 {
		bytes, i = bytes/1024, i+1
	}
	return fmt.Sprintf("%.3g %s", bytes, units[i])
}

func (v *profileView) headline() string {
	if len(v.bins) == 0 {
		return "no size of a call is known"
	}
	g := v.bins[0]
	what := fmt.Sprintf("%s of %s on %s", g.Coll, cli.SizeRange(g.Sizes()), commText(g.Comm))
	if v.total == 0 {
		return fmt.Sprintf("%s of calls, as %s; how often each is made is not known",
			wording.Plural(len(v.Entries), "kind"), what)
	}
	return fmt.Sprintf("%.0f %% of the %s is %s (%s of %s%s)", 100*g.Weight/v.total, v.of(), what, v.amount(g.Weight),
		v.amount(v.total), v.per())
}

func (v *profileView) write(w io.Writer) {
	fmt.Fprintln(w, v.headline())
	if line := v.expectation(); line != "" {
		fmt.Fprintln(w, line)
	}
	for _, line := range v.pastTuner() {
		fmt.Fprintln(w, line)
	}
	if len(v.bins) > 0 {
		inDetail := v.bins[:1]
		if v.by != (ask.Decider{}) || v.scale.Weight != profile.ByTime { // decisions, or what ran, of all of them
			inDetail = v.bins
		}
		for _, g := range inDetail {
			fmt.Fprintf(w, "\nwhat is known about %s on %s, %s:\n", g.Coll, commText(g.Comm), cli.SizeRange(g.Sizes()))
			v.table(w, g.Entries)
		}
		if len(v.bins) > 1 {
			fmt.Fprintln(w, "\nall, the heaviest first:")
			tw := cli.NewTable(w)
			tw.Row("share", "collective", "comm", "sizes", "calls"+v.per(), "bytes"+v.per(), "time"+v.per(), "")
			for _, g := range v.bins {
				var calls, bytes, micros float64
				for _, e := range g.Entries {
					n := v.scale.Count(e)
					calls, bytes, micros = calls+n, bytes+n*float64(e.Bytes), micros+n*e.Micros
				}
				tw.Row(v.share(g.Weight), g.Coll, commText(g.Comm), cli.SizeRange(g.Sizes()), known(calls, "%.4g"),
					orDash(bytes, about), orDash(micros, profile.Duration), "")
			}
			tw.Flush()
		}
	}
	var unknown []string
	for _, e := range v.Entries {
		if e.Bytes == 0 {
			unknown = append(unknown, fmt.Sprintf("%s %s", e.Coll, e.Comm))
		}
	}
	if len(unknown) > 0 {
		fmt.Fprintf(w, "\nnot counted, as the size of the calls is not known: %s\n", strings.Join(unknown, ", "))
	}
}

// pastTuner says of which collectives calls ran as what no tuner chooses.
func (v *profileView) pastTuner() (lines []string) {
	var past, all [nccl.NumColls]float64
	for _, e := range v.Entries {
		n := v.scale.Count(e)
		if all[e.Coll] += n; e.DecidedBy == profile.ByNoTuner {
			past[e.Coll] += n
		}
	}
	for coll, n := range past {
		if n > 0 {
			lines = append(lines, fmt.Sprintf("%.6g of %.6g %ss%s ran as symmetric kernels or others that no tuner "+
				"chooses: at most a row with ll has a say there", n, all[coll], nccl.Coll(coll), v.per()))
		}
	}
	return lines
}

// table prints calls of a bin, one size a line.
func (v *profileView) table(w io.Writer, entries []profile.Entry) {
	tw := cli.NewTable(w)
	heading := []any{"size", "calls" + v.per(), "time", "busbw GB/s", "runs", "decided by"}
	if v.by != (ask.Decider{}) {
		heading = append(heading, "would run", "says", "expected", "gain", "why another ran")
	}
	tw.Row(append(heading, "")...)
	for _, e := range entries {
		cells := []any{nccl.FormatBytes(e.Bytes), known(v.scale.Count(e), "%.4g"), orDash(e.Micros, profile.Duration),
			known(busBW(e), "%.4g"), nccl.Config{Cell: e.Cell, Channels: e.Channels}, cmp.Or(e.DecidedBy, "-")}
		if o, ok := v.outcomes[e.CallKind]; ok {
			expected, gain := "-", "-"
			if o.Expected != nil {
				expected, gain = profile.Duration(o.Expected.Micros), cli.Percent(o.Expected.Gain)
			}
			cells = append(cells, o.Choice(), o.DecidedBy(), expected, gain, cmp.Or(v.whyAnother(e), "-"))
		} else if v.by != (ask.Decider{}) {
			cells = append(cells, "-", "-", "-", "-", cmp.Or(v.whyAnother(e), "-"))
		}
		tw.Row(append(cells, "")...)
	}
	tw.Flush()
}

// commText is a communicator of which a log may not tell all.
func commText(c nccl.Comm) string {
	switch {
	case c.Nodes > 0:
		return c.String()
	case c.Ranks > 0:
		return wording.Plural(c.Ranks, "rank")
	}
	return "a communicator that the log does not tell"
}

// whyAnother says why something else ran than the policy and the model say, as far as that is known. It is empty where
// the same ran.
func (v *profileView) whyAnother(e profile.Entry) string {
	o, asked := v.outcomes[e.CallKind]
	decided := o.Row > 0 || o.ByModel
	cell := o.Policy.Cell
	switch {
	case e.DecidedBy == profile.ByNoTuner:
		return "a symmetric kernel or the like: no tuner chooses it"
	case !asked:
		return "the nodes of the communicator are not known"
	case !decided:
		_, why, _ := strings.Cut(o.Why, ", ") // behind what runs
		return why
	case !e.Known() && v.Direct:
		return "RCCL's direct access may have run it"
	case !e.Known():
		return "what ran is not known"
	case e.Cell == cell && (o.Policy.Channels == 0 || e.Channels == 0 || e.Channels == o.Policy.Channels):
		return ""
	case v.Lacks(e.Coll, cell):
		return cell.String() + " was not available"
	case e.Cell != cell && len(v.Variables) > 0:
		return strings.Join(v.Variables, ", ")
	case v.NotLoaded():
		return "the library was not loaded"
	case e.DecidedBy != "":
		return "the job's policy: " + e.DecidedBy
	case e.Cell == cell:
		return fmt.Sprintf("%d channels is all that the communicator has, or NCCL took for the size", e.Channels)
	}
	return "not available, or another policy (NCCL_TUNER_LOG=decisions tells)"
}

// busBW is bus bandwidth in GB/s, 0 where the time is not known.
func busBW(e profile.Entry) float64 {
	if e.Micros == 0 {
		return 0
	}
	return float64(e.Bytes) / e.Micros / 1e3 * e.Coll.BusFactor(float64(e.Ranks))
}

// known writes a number, or - for 0.
func known(n float64, format string) string {
	return orDash(n, func(n float64) string { return fmt.Sprintf(format, n) })
}

func orDash(n float64, write func(float64) string) string {
	if n == 0 {
		return "-"
	}
	return write(n)
}

func (v *profileView) share(weight float64) string {
	if v.total == 0 || weight == 0 {
		return "-"
	}
	return cli.Percent(weight / v.total)
}

// saving is the weight that is decided, the part of it whose saving the model knows, and that saving.
type saving struct {
	decided, known, saved float64 // weights
}

// leavesToNCCL reports whether nothing is decided.
func leavesToNCCL(o ask.Outcome) bool {
	return o.Policy == nccl.Config{Cell: o.NCCL.Cell} && o.Chunk == 0
}

func (v *profileView) saving() (s saving) {
	for _, e := range v.Entries {
		o, ok := v.outcomes[e.CallKind]
		if !ok || leavesToNCCL(o) {
			continue
		}
		w := v.scale.Of(e)
		s.decided += w
		if now := e.Cell; o.Expected == nil || !(o.Expected.Gain < 1) || now != nccl.NoCell && now != o.NCCL.Cell ||
			e.Channels > 0 {
			continue
		}
		s.known += w
		s.saved += w * o.Expected.Gain
	}
	return s
}

// expectation says what the policy and the model would save; empty if neither was asked.
func (v *profileView) expectation() string {
	if v.by == (ask.Decider{}) || v.total == 0 {
		return ""
	}
	s, by := v.saving(), slices.DeleteFunc([]string{v.by.Policy, v.by.Model}, func(s string) bool { return s == "" })
	who := by[0]
	if len(by) > 1 {
		who += " and " + by[1]
	}
	text := fmt.Sprintf("%s: %s of that is decided", who, cli.Percent(s.decided/v.total))
	switch {
	case s.decided == 0:
		return who + ": all of that is left to NCCL"
	case v.scale.Weight != profile.ByTime || s.known == 0:
		return text + "; what that saves is not known"
	}
	text += fmt.Sprintf(", which is expected to save %s of the time, %s%s", cli.Percent(s.saved/v.total),
		profile.Duration(s.saved), v.per())
	if s.known < s.decided {
		text += fmt.Sprintf(", not counting %s where that is not known", cli.Percent((s.decided-s.known)/v.total))
	}
	return text
}

// profileJSON is a profile as programs read it. What is not known is left out.
type profileJSON struct {
	Headline string `json:"headline"`
	profile.Scale
	Total   float64     `json:"total"` // microseconds or bytes
	Decided *float64    `json:"decided_share,omitempty"`
	Saved   *float64    `json:"expected_saving,omitempty"` // share of the time
	Notes   []string    `json:"notes"`
	Calls   []entryJSON `json:"calls"`
}

// entryJSON is an entry with its share and bandwidth. What is not known is left out.
type entryJSON struct {
	profile.Entry
	Bytes     uint64      `json:"bytes,omitempty"`
	Algo      *nccl.Algo  `json:"algorithm,omitempty"`
	Proto     *nccl.Proto `json:"protocol,omitempty"`
	Share     float64     `json:"share,omitempty"`
	StepBytes float64     `json:"bytes_per_step,omitempty"`
	BusBW     float64     `json:"busbw_gbps,omitempty"`
	// Outcome is what the policy and the model decide, as in tunefit show --json, and WhyAnother why that did not run.
	Outcome    *ask.Outcome `json:"outcome,omitempty"`
	WhyAnother string       `json:"why_another,omitempty"`
}

func (v *profileView) json() profileJSON {
	j := profileJSON{Headline: v.headline(), Scale: v.scale, Total: v.total, Notes: append([]string{}, v.Notes...),
		Calls: []entryJSON{}}
	if s := v.saving(); v.by != (ask.Decider{}) && v.total > 0 {
		decided, saved := s.decided/v.total, s.saved/v.total
		if j.Decided = &decided; v.scale.Weight == profile.ByTime && s.known > 0 {
			j.Saved = &saved
		}
	}
	for _, e := range v.Entries {
		c := entryJSON{Entry: e, Bytes: e.Bytes, StepBytes: e.StepCalls * float64(e.Bytes), BusBW: busBW(e)}
		if v.total > 0 {
			c.Share = v.scale.Of(e) / v.total
		}
		if e.Algo >= 0 {
			c.Algo = &e.Algo
		}
		if e.Proto >= 0 {
			c.Proto = &e.Proto
		}
		if o, ok := v.outcomes[e.CallKind]; ok {
			c.Outcome = &o
		}
		if v.by != (ask.Decider{}) {
			c.WhyAnother = v.whyAnother(e)
		}
		j.Calls = append(j.Calls, c)
	}
	return j
}
