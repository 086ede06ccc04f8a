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
		Long: `Print what a job does with NCCL: calls by collective, communicator and size, the
heaviest first, and what runs there. With --policy, --model or both also what they decide
there, what the model expects that to save, and why something else ran.

It reads a job profile, or what tunefit import makes one of: the directory of
` + tuner.EnvRecord + `, the output of NCCL's inspector, or a job's logs, also gzip: NCCL's
(NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING,COLL) or the library's decisions
(NCCL_TUNER_LOG=decisions). All files must be of one job.

Shares are of the time if that is known of nearly all calls, else of the bytes. Calls are
those of one rank, on average. A - means not known: no log has times, and times need the
files of all ranks. A saving counts only where the job runs NCCL's default, or where
nothing tells what it runs.`,
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
	v := &profiled{Profile: p, Scale: p.Scale(), Total: p.Total(), Notes: append([]string{}, p.Notes...),
		Calls: []profiledCalls{}, by: f.by}
	outcomes := map[profile.CallKind]ask.Outcome{}
	if f.by != (ask.Decider{}) {
		if outcomes, err = f.decide(cmd.ErrOrStderr(), p); err != nil {
			return err
		}
	}
	v.complete(outcomes)
	cli.Notes(cmd.ErrOrStderr(), p.Notes...)
	return cli.Print(cmd.OutOrStdout(), f.asJSON, v, v.write)
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
			return nil, cli.Usagef("%s is a job profile and stands alone (needed: that, or several other files)", file)
		case steps != 0:
			return nil, cli.Usagef("--steps %d: a job profile has calls_per_step (--steps is for tunefit import)",
				steps)
		}
		return readProfile(in, file)
	}
	return readJob(in, cmd, files, found, steps)
}

// readProfile reads a job profile.
func readProfile(in *cli.Inputs, file string) (*profile.Profile, error) {
	text, err := in.Text(file, cli.KindProfile)
	if err != nil {
		return nil, err
	}
	return profile.Read(cli.Called(file), text)
}

// decide asks the policy and the model about every call whose size is known.
func (f *profileFlags) decide(notes io.Writer, p *profile.Profile) (map[profile.CallKind]ask.Outcome, error) {
	if _, release, ok := nccl.MeasuredWith(strings.TrimPrefix(p.NCCL, "RCCL ")); ok && f.from.NCCL == "" &&
		release >= nccl.Oldest {
		f.from.NCCL = release.String()
		cli.Notes(notes, fmt.Sprintf("for NCCL %s, which the log names (--nccl names another release)", release))
	}
	a, err := ask.NewAsker(f.from, f.by)
	if err != nil {
		return nil, err
	}
	outcomes := map[profile.CallKind]ask.Outcome{}
	var shown []policy.Comm
	for _, e := range p.Entries {
		if e.Bytes == 0 || e.Nodes == 0 || e.DecidedBy == profile.ByNoTuner {
			continue
		}
		c := a.Comm(e.Comm)
		if !slices.Contains(shown, c) {
			shown = append(shown, c)
		}
		answers, err := a.Ask(f.by, ask.Question{Call: e.Call, Comm: c, PipeOps: 1}, e.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c, err)
		}
		outcomes[e.CallKind] = answers[0]
	}
	cli.Notes(notes, a.About(f.by, shown, false)...)
	a.Note(notes, shown)
	return outcomes, nil
}

// profiled is a profile with what was asked about it, as --json prints it. What is not known is left out.
type profiled struct {
	*profile.Profile `json:"-"`
	Headline         string `json:"headline"`
	profile.Scale
	Total   float64         `json:"total"` // microseconds or bytes
	Decided *float64        `json:"decided_share,omitempty"`
	Saved   *float64        `json:"expected_saving,omitempty"` // share of the time
	Notes   []string        `json:"notes"`
	Calls   []profiledCalls `json:"calls"`

	by      ask.Decider // the policy and the model that were asked; empty: none
	unknown float64     // share of what is decided without the model knowing what that saves
}

// profiledCalls are calls that are alike, with their share and bandwidth.
type profiledCalls struct {
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

// complete fills in what follows from the profile and the answers.
func (v *profiled) complete(outcomes map[profile.CallKind]ask.Outcome) {
	v.Headline = v.headline()
	var decided, saved float64
	for _, e := range v.Entries {
		c := profiledCalls{Entry: e, Bytes: e.Bytes, StepBytes: e.StepCalls * float64(e.Bytes)}
		if e.Micros > 0 {
			c.BusBW = float64(e.Bytes) / e.Micros / 1e3 * e.Coll.BusFactor(float64(e.Ranks))
		}
		if v.Total > 0 {
			c.Share = v.Scale.Of(e) / v.Total
		}
		if e.Algo >= 0 {
			c.Algo = &e.Algo
		}
		if e.Proto >= 0 {
			c.Proto = &e.Proto
		}
		if o, ok := outcomes[e.CallKind]; ok {
			c.Outcome = &o
			if o.Policy != (nccl.Config{Cell: o.NCCL.Cell}) || o.Chunk != 0 { // it is not left to NCCL
				decided += c.Share
				if x := o.Expected; v.Weight == profile.ByTime && x != nil && x.Gain < 1 && e.Channels == 0 &&
					(e.Cell == nccl.NoCell || e.Cell == o.NCCL.Cell) {
					saved += c.Share * x.Gain
				} else {
					v.unknown += c.Share
				}
			}
		}
		if v.by != (ask.Decider{}) {
			c.WhyAnother = v.whyAnother(e, c.Outcome)
		}
		v.Calls = append(v.Calls, c)
	}
	if v.by != (ask.Decider{}) && v.Total > 0 {
		if v.Decided = &decided; v.unknown < decided {
			v.Saved = &saved
		}
	}
}

// per says whether counts are per step or of the whole recording.
func (v *profiled) per() string {
	if v.PerStep {
		return " a step"
	}
	return ""
}

// amount writes a weight.
func (v *profiled) amount(weight float64) string {
	if v.Weight == profile.ByBytes {
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

// headline names what is heaviest.
func (v *profiled) headline() string {
	bins := v.SizeBins()
	if len(bins) == 0 {
		return "no size of a call is known"
	}
	g := bins[0]
	what := fmt.Sprintf("%s of %s on %s", g.Coll, cli.SizeRange(g.Sizes()), commText(g.Comm))
	if v.Total == 0 {
		return fmt.Sprintf("%s of calls, as %s; how often each is made is not known",
			wording.Plural(len(v.Entries), "kind"), what)
	}
	of := [...]string{profile.ByBytes: "bytes of the communication", profile.ByTime: "communication time"}[v.Weight]
	return fmt.Sprintf("%.0f %% of the %s is %s (%s of %s%s)", 100*g.Weight/v.Total, of, what, v.amount(g.Weight),
		v.amount(v.Total), v.per())
}

func (v *profiled) write(w io.Writer) {
	fmt.Fprintln(w, v.Headline)
	if v.Decided != nil {
		fmt.Fprintln(w, v.expectation())
	}
	tw := cli.NewTable(w)
	tw.Row()
	heading := []any{"share", "collective", "comm", "size", "calls" + v.per(), "time", "busbw GB/s", "runs",
		"decided by"}
	if v.by != (ask.Decider{}) {
		heading = append(heading, "would run", "says", "expected", "gain", "why another ran")
	}
	tw.Row(heading...)
	for _, c := range v.Calls {
		size := "not known"
		if c.Bytes > 0 {
			size = nccl.FormatBytes(c.Bytes)
		}
		cells := []any{orDash(c.Share, cli.Percent), c.Coll, commText(c.Comm), size,
			orDash(v.Scale.Count(c.Entry), short), orDash(c.Micros, profile.Duration), orDash(c.BusBW, short),
			nccl.Config{Cell: c.Cell, Channels: c.Channels}, cmp.Or(c.DecidedBy, "-")}
		if v.by != (ask.Decider{}) {
			would, says, expected, gain := "-", "-", "-", "-"
			if o := c.Outcome; o != nil {
				if would, says = o.Choice(), o.DecidedBy(); o.Expected != nil {
					expected, gain = profile.Duration(o.Expected.Micros), cli.Percent(o.Expected.Gain)
				}
			}
			cells = append(cells, would, says, expected, gain, cmp.Or(c.WhyAnother, "-"))
		}
		tw.Row(cells...)
	}
	tw.Flush()
}

func short(n float64) string { return fmt.Sprintf("%.4g", n) }

func orDash(n float64, write func(float64) string) string {
	if n == 0 {
		return "-"
	}
	return write(n)
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
func (v *profiled) whyAnother(e profile.Entry, o *ask.Outcome) string {
	switch {
	case e.DecidedBy == profile.ByNoTuner:
		return "a symmetric kernel or the like: no tuner chooses it"
	case e.Bytes == 0:
		return "the size of the calls is not known"
	case o == nil:
		return "the nodes of the communicator are not known"
	case o.Row == 0 && !o.ByModel:
		_, why, _ := strings.Cut(o.Why, ", ") // behind what runs
		return why
	}
	cell := o.Policy.Cell
	switch {
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

// expectation says what the policy and the model would save.
func (v *profiled) expectation() string {
	who := cmp.Or(v.by.Policy, v.by.Model)
	if who != v.by.Model && v.by.Model != "" {
		who += " and " + v.by.Model
	}
	text := fmt.Sprintf("%s: %s of that is decided", who, cli.Percent(*v.Decided))
	switch {
	case *v.Decided == 0:
		return who + ": all of that is left to NCCL"
	case v.Saved == nil:
		return text + "; what that saves is not known"
	}
	text += fmt.Sprintf(", which is expected to save %s of the time, %s%s", cli.Percent(*v.Saved),
		profile.Duration(*v.Saved*v.Total), v.per())
	if v.unknown > 0 {
		text += fmt.Sprintf(", not counting %s where that is not known", cli.Percent(v.unknown))
	}
	return text
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
	keyOf := func(g profile.SizeBin) fit.Key { return fit.Key{Coll: g.Coll, Comm: g.Comm} }
	for _, bins := range cli.Groups(p.SizeBins(), keyOf) {
		key := keyOf(bins[0])
		if key.Nodes == 0 || // a log did not tell them
			len(named.Colls) > 0 && !slices.Contains(colls, key.Coll) ||
			len(named.Comms) > 0 && !slices.Contains(comms, key.Comm) {
			continue
		}
		unit, r := perfrun.TrimUnit(key), nccl.Range{Min: nccl.Inf} // nccl-tests measures no less than the unit
		for _, g := range bins {
			if total > 0 && g.Weight < worthMeasuring*total {
				light += g.Weight
				continue
			}
			weights[key] += g.Weight
			least, most := g.Sizes()
			r = nccl.Range{Min: min(r.Min, max(least/unit, 1)*unit), Max: max(r.Max, max(most/unit, 1)*unit)}
		}
		if r.Max > 0 {
			keys, sizes = append(keys, key), append(sizes, doublings(r.Min, r.Max)...)
		}
	}
	if len(keys) == 0 {
		of := ""
		if len(named.Colls)+len(named.Comms) > 0 {
			of = " of the collectives and communicators that --coll and --comm name"
		}
		return nil, nil, cli.Usagef("--profile %s: no call of a known size is in it%s", file, of)
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

// doublings are the powers of 2 from the one at or below least up to the one at or above most, nccl-tests' own sizes.
func doublings(least, most uint64) (sizes []uint64) {
	for n := uint64(1) << (bits.Len64(least) - 1); ; n *= 2 {
		sizes = append(sizes, n)
		if n >= most || n > nccl.Inf/4 {
			return sizes
		}
	}
}
