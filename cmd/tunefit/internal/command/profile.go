package command

import (
	"cmp"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

type profileFlags struct {
	by     ask.Decider
	steps  int
	asJSON bool
	from   ask.Flags
}

func profileCommand(env cli.Env) *cobra.Command {
	f := profileFlags{from: ask.Flags{Env: env}}
	cmd := &cobra.Command{
		Use:   "profile FILE|DIRECTORY...",
		Short: "Print what a job does with NCCL, and what a policy would make of it",
		Long: `Print what a job does with NCCL: where its communication time goes, by collective,
communicator and size, and what runs there now. With --policy, --model or both it also
prints what they decide there, and what the model expects that to save.

It reads a job profile, or what tunefit import makes one of:
  - the directory of ` + tuner.EnvRecord + `
  - the output of NCCL's inspector
  - a job's log, in one file or several, also gzip: of NCCL (NCCL_DEBUG=INFO,
    NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING,COLL) or with the library's decisions
    (NCCL_TUNER_LOG=decisions)
All files must be of one job. With --policy it says why something else ran than the
policy says, as far as the files tell, in the release of NCCL that a log names.

Shares are of the time if that is known of nearly all calls, else of the bytes. A -
means not known: logs of decisions have no counts, no log has times, and times need
the files of all ranks. Calls are those of one rank, the mean over the ranks that were recorded. It
counts what the model expects to save only where the job runs NCCL's default, or
where nothing tells what it runs.`,
		Example: `  tunefit profile job.csv
  tunefit profile recorded/ --steps 8
  tunefit profile inspector*.json --steps 8 --json
  tunefit profile job.log --policy tuner.csv
  tunefit profile job.csv --model model.json`,
		Args: cli.Args(1, -1, "a job profile, or what the inspector or the library wrote of a job"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	cmd.Flags().StringVar(&f.by.Policy, "policy", "", "policy file: say what it decides")
	cmd.Flags().StringVar(&f.by.Model, "model", "", "cost model: say what it decides, and what is expected of that")
	cmd.Flags().IntVar(&f.steps, "steps", 0,
		"how many steps of training were recorded (default: as the profile says, or not known)")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	f.from.Register(cmd)
	return cmd
}

func (f *profileFlags) run(cmd *cobra.Command, args []string) error {
	if err := mayCount(f.steps); err != nil {
		return err
	}
	if f.by == (ask.Decider{}) {
		for _, name := range []string{"nccl", "topo"} {
			if cmd.Flags().Changed(name) {
				return cli.Usagef("--%s needs --policy or --model, whose decisions it is for", name)
			}
		}
	}
	p, err := readProfiled(f.from.Inputs, cmd, args, f.steps)
	if err != nil {
		return err
	}
	v := newProfileView(p)
	if f.by != (ask.Decider{}) {
		if err := f.decide(cmd.ErrOrStderr(), v); err != nil {
			return err
		}
	}
	cli.Notes(cmd.ErrOrStderr(), p.Notes...)
	return cli.Print(cmd.OutOrStdout(), f.asJSON, v.json(), v.write)
}

// readProfiled reads a profile, or makes one of a job's files.
func readProfiled(in *cli.Inputs, cmd *cobra.Command, args []string, steps int) (*profile.Profile, error) {
	files, found, err := walked(args)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if kind, err := in.Kind(file); err != nil || kind != cli.KindProfile {
			continue
		}
		switch {
		case len(files) > 1:
			return nil,
				cli.Usagef("%s is a job profile and stands alone (needed: one profile, or several files of the "+
					"inspector or the library)", file)
		case steps != 0:
			return nil,
				cli.Usagef("--steps %d: a job profile says itself what is known of its steps, in calls_per_step "+
					"(--steps is for tunefit import)", steps)
		}
		return readProfile(in, file)
	}
	return readJob(in, cmd, files, found, steps)
}

// readProfile reads the file of --profile.
func readProfile(in *cli.Inputs, file string) (*profile.Profile, error) {
	text, err := in.Text(file, cli.KindProfile)
	if err != nil {
		return nil, err
	}
	return profile.Read(cli.Called(file), text)
}

// decide asks the policy and the model about every call whose size is known.
func (f *profileFlags) decide(notes io.Writer, v *profileView) error {
	if _, release, ok := nccl.MeasuredWith(strings.TrimPrefix(v.NCCL, "RCCL ")); ok && f.from.NCCL == "" &&
		release >= nccl.Oldest {
		f.from.NCCL = release.String()
		cli.Notes(notes, fmt.Sprintf("for NCCL %s, which the log names (--nccl names another release)", release))
	}
	a, err := ask.NewAsker(f.from, f.by)
	if err != nil {
		return err
	}
	v.by = f.by
	var shown []policy.Comm
	for _, g := range v.bins {
		for _, e := range g.Entries {
			if g.Nodes == 0 || e.DecidedBy == profile.ByNoTuner {
				continue
			}
			c := a.Comm(g.Comm)
			if !slices.Contains(shown, c) {
				shown = append(shown, c)
			}
			answers, err := a.Ask(f.by, ask.Question{Call: e.Call, Comm: c, PipeOps: 1}, e.Bytes)
			if err != nil {
				return fmt.Errorf("%s: %w", c, err)
			}
			v.outcomes[e.CallKind] = answers[0]
		}
	}
	cli.Notes(notes, a.About(f.by, shown, false)...)
	a.Note(notes, shown)
	return nil
}

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

// worthMeasuring is the least share of a job's communication that a collective's sizes within an octave need in order
// to be measured.
const worthMeasuring = 0.01

// subjectsOf returns what is worth measuring for the job of a profile: collectives on communicators, the heaviest
// first, and every doubling around their sizes. It takes the collectives and communicators named, or all if none are.
func subjectsOf(p *profile.Profile, file string, named *cli.CallFlags, notes io.Writer) (keys []fit.Key, sizes []uint64,
	err error) {
	colls, err := named.ParseColls()
	if err != nil {
		return nil, nil, err
	}
	comms, err := named.ParseComms(nil)
	if err != nil {
		return nil, nil, err
	}
	total, light := p.Total(), 0.0
	weights := map[fit.Key]float64{}
	ends := map[fit.Key]nccl.Range{}
	for _, g := range p.SizeBins() {
		key := fit.Key{Coll: g.Coll, Comm: g.Comm}
		switch {
		case g.Nodes == 0: // a log did not tell them
			continue
		case len(named.Colls) > 0 && !slices.Contains(colls, g.Coll), len(named.Comms) > 0 &&
			!slices.Contains(comms, g.Comm):
			continue
		case total > 0 && g.Weight < worthMeasuring*total:
			light += g.Weight
			continue
		}
		weights[key] += g.Weight
		least, most := g.Sizes()
		unit := perfrun.TrimUnit(key) // nccl-tests measures no less
		r := nccl.Range{Min: max(least/unit, 1) * unit, Max: max(most/unit, 1) * unit}
		if known, seen := ends[key]; seen {
			r = nccl.Range{Min: min(known.Min, r.Min), Max: max(known.Max, r.Max)}
		} else {
			keys = append(keys, key)
		}
		ends[key] = r
	}
	if len(keys) == 0 {
		return nil, nil, cli.Usagef("--profile %s: no call of a known size is in it%s", file, namedToo(named))
	}
	for _, r := range ends {
		sizes = append(sizes, doublings(r.Min, r.Max)...)
	}
	slices.Sort(sizes)
	slices.SortStableFunc(keys, func(a, b fit.Key) int { return cmp.Compare(weights[b], weights[a]) })
	if p.Scale().Weight == profile.ByNothing {
		fmt.Fprintf(notes, "note: %s does not tell how often calls are made: all are measured, in no order\n", file)
	} else if light > 0 {
		fmt.Fprintf(notes,
			"note: of %s, %s of the job's communication are left out: sizes and collectives with less than 1 %% "+
				"each\n", file, cli.Percent(light/total))
	}
	return keys, slices.Compact(sizes), nil
}

func namedToo(named *cli.CallFlags) string {
	if len(named.Colls)+len(named.Comms) > 0 {
		return " of the collectives and communicators that --coll and --comm name"
	}
	return ""
}

// doublings are the powers of 2 from the one at or below least up to the one at or above most, nccl-tests' own sizes.
func doublings(least, most uint64) (sizes []uint64) {
	for n := uint64(1) << (bits.Len64(least) - 1); ; n *= 2 {
		sizes = append(sizes, n)
		if n >= most || n > nccl.Inf/4 {
			return sizes
		}
	}
}
