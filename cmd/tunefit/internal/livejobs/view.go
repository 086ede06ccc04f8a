package livejobs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// View shows the communicators of a rendezvous.
type View struct {
	Warnings   io.Writer // for what JSON and Prometheus' format have no place for
	Rendezvous string    // "": $NCCL_TUNER_RENDEZVOUS, else the default ones
	All        bool      // also those that have ended
	Watch      bool      // again and again
	JSON       bool
	Prometheus bool
}

// rendezvous is the one that is named, or the one of the environment, or "" for the default ones.
func rendezvous(named string) string { return cmp.Or(named, os.Getenv(tuner.EnvRendezvous)) }

// Run prints until it is done, or interrupted.
func (f *View) Run(out io.Writer) error {
	o := newObserver(rendezvous(f.Rendezvous))
	if !f.Watch {
		all, err := o.look(context.Background())
		if err != nil {
			return err
		}
		return f.write(out, all, o.unseen)
	}
	ctx, stop := cli.Interruptible()
	defer stop()
	// SIGPIPE ends it, too: then nobody reads any more.
	read, end := signal.NotifyContext(ctx, syscall.SIGPIPE)
	defer end()
	return cli.Interrupted(ctx, f.watch(read, out, o))
}

// watch prints the view again and again until ctx ends: in place on a terminal, and elsewhere once for each change,
// with the time.
func (f *View) watch(ctx context.Context, out io.Writer, o *observer) (failed error) {
	last := ""
	o.poll(ctx, time.Second, func(all []*Communicator, err error) bool {
		var text bytes.Buffer
		if w := (cli.Columns{Writer: &text, Most: cli.Width(out)}); err == nil {
			err = f.write(w, all, o.unseen)
		}
		if err != nil && !errors.Is(err, cli.ErrFailed) { // what cannot be seen now may be seen later
			fmt.Fprintln(cli.Printable{Writer: &text}, err)
		}
		now, show := time.Now().Format(time.TimeOnly), ""
		if cli.IsTerminal(out) {
			// Each line is written over the old one: nothing flickers.
			body := "tunefit status --watch   " + now + "   (Ctrl-C ends)\n\n" + text.String()
			show = "\x1b[H" + strings.ReplaceAll(body, "\n", "\x1b[K\n") + "\x1b[J"
		} else if text.String() != last {
			show = now + "\n" + text.String() + "\n"
		}
		last, failed = text.String(), cli.Steer(out, show)
		return failed == nil
	})
	return failed
}

// write prints the communicators that are asked for. It fails if a file is refused, or if none was seen where not
// all could be looked at. In Prometheus' format it does not, since that tells these things itself.
func (f *View) write(w io.Writer, all []*Communicator, unseen []error) error {
	// watch steers the terminal with the rest of its text, so this is escaped here. Without --watch cli.Output escapes
	// it again, which changes nothing.
	w = cli.Printable{Writer: w}
	shown, leftovers, read, bad := []*Communicator{}, 0, map[refusalKey]refusedFile{}, false
	for _, c := range all {
		if f.All || !c.Ended {
			c.Asked = c.readAsked()
			c.RefusedFiles = c.refusedFiles(read)
			bad = bad || len(c.RefusedFiles) > 0
			shown = append(shown, c)
		} else {
			leftovers++
		}
	}
	bad = bad || len(shown) == 0 && len(unseen) > 0
	switch {
	case f.Prometheus:
		writeUnseen(f.Warnings, unseen)
		return writePrometheus(w, shown, len(unseen))
	case f.JSON:
		writeUnseen(f.Warnings, unseen)
		return cli.FailIf(bad, cli.WriteJSON(w, shown))
	}
	if err := writeStatus(w, shown); err != nil {
		return err
	}
	name := rendezvous(f.Rendezvous)
	switch {
	case len(shown) == 0 && len(unseen) == 0:
		fmt.Fprintf(w, "no live communicator whose policy can change %s\n%s", where(name), otherPlacesHint(name))
	case len(shown) == 0:
		fmt.Fprintf(w, "not known whether communicators live %s: not all of it can be looked at\n", where(name))
	}
	writeUnseen(w, unseen)
	if leftovers > 0 {
		fmt.Fprintf(w, "%s that %s ended left records behind (--all lists them, tunefit gc removes them)\n",
			wording.Plural(leftovers, "communicator"), wording.Verb(leftovers, "has", "have"))
	}
	return cli.FailIf(bad, nil)
}

func where(rendezvous string) string {
	if rendezvous == "" {
		return "in /dev/shm of this machine"
	}
	return "in " + rendezvous
}

// otherPlacesHint says, where nothing was found, which jobs could not be.
func otherPlacesHint(rendezvous string) string {
	switch {
	case notCreatedYet(rendezvous):
		return rendezvous + " does not exist yet: jobs that meet elsewhere were not looked for\n"
	case rendezvous == "":
		return "jobs that have " + tuner.EnvRendezvous + " set meet elsewhere and were not looked for: name their " +
			"folder, or the one above, with --rendezvous\n"
	}
	return ""
}

// writeUnseen says what could not be looked at.
func writeUnseen[T any](w io.Writer, unseen []T) {
	for _, what := range unseen {
		fmt.Fprintf(w, "not looked at: %v\n", what)
	}
}

// displayName is the communicator's id, with the name that the program gave it.
func displayName(c *Communicator) string {
	if c.CommName == "" {
		return c.Name
	}
	return fmt.Sprintf("%s %q", c.Name, c.CommName)
}

// writeStatus prints a line for each communicator, and below what a person should know beyond that.
func writeStatus(w io.Writer, all []*Communicator) error {
	var text bytes.Buffer
	counted := slices.ContainsFunc(all, func(c *Communicator) bool { return c.Asked != nil })
	jobs := cli.Groups(all, func(c *Communicator) string { return c.Rendezvous })
	table := cli.NewTable(cli.Columns{Writer: &text, Most: cli.Width(w)})
	row := func(job, asked string, cells ...any) {
		if counted {
			cells = slices.Insert(cells, len(cells)-1, any(asked))
		}
		if len(jobs) > 1 {
			cells = slices.Insert(cells, 0, any(job))
		}
		table.Row(cells...)
	}
	if len(jobs) == 1 {
		fmt.Fprintf(&text, "rendezvous %s\n", all[0].Rendezvous)
	}
	if len(all) > 0 {
		row("job", "asked", "communicator", "ranks", "on", "version", "since", "policy", "change")
	}
	for _, job := range jobs {
		for _, c := range job {
			row(c.name().job(), c.Asked.String(), displayName(c), ranksText(c), hostsText(c.hosts()),
				fmt.Sprintf("%.12s", cmp.Or(c.Version, "-")), moment(c.Since), files(c), c.standing().brief)
		}
	}
	table.Flush()
	for _, f := range findings(all) {
		fmt.Fprintf(&text, "\n%s\n", f)
	}
	_, err := w.Write(text.Bytes())
	return err
}

func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

func few(list []string) string { return cli.Few(list, 8, ", ") }

// moment is a time as a person reads it; the date is left out today.
func moment(t time.Time) string {
	now := time.Now()
	switch {
	case t.IsZero():
		return "-"
	case now.YearDay() == t.YearDay() && now.Year() == t.Year():
		return t.Format(time.TimeOnly)
	}
	return t.Format("2006-01-02 15:04")
}

func ranksText(c *Communicator) string {
	if len(c.Members) < c.Ranks {
		return fmt.Sprintf("%d of %d", len(c.Members), c.Ranks)
	}
	return fmt.Sprint(c.Ranks)
}

func hostsText(hosts []string) string {
	switch len(hosts) {
	case 0:
		return "-"
	case 1:
		return hosts[0]
	default:
		return wording.Plural(len(hosts), "host")
	}
}

func files(c *Communicator) string {
	if c.Policy != "" && c.Model != "" {
		return c.Policy + " + " + c.Model
	}
	return cmp.Or(c.Policy, c.Model, "-")
}

// standing is how far a communicator's next change is: in a few words for a table, and what a person should know of it.
type standing struct {
	brief string
	finding
	never   bool    // none comes any more
	shared  bool    // other communicators may share it, so status says it once for all
	refusal *change // the finding is of this one
}

// standing says where the ranks are.
func (c *Communicator) standing() standing {
	is := func(brief, remedy, format string, args ...any) standing {
		return standing{brief: brief, finding: finding{fmt.Sprintf(format, args...), remedy}}
	}
	ranks := wording.Plural(c.Ranks, "rank")
	dead, left := c.lives(identity.Dead), c.left()
	switch {
	case c.Ended && c.Newest.IsZero():
		return is("ended", "", "all its ranks have ended")
	case c.Ended:
		return is("ended", "", "all its ranks have ended; its last record is of %s", moment(c.Newest))
	case c.Frozen:
		x := c.frozen
		s := is("never again", x.Remedy, "keeps version %.12s for good since change %d was refused%s: %s", c.Version,
			x.K, atTime(x.Decided), x.Why)
		s.never, s.refusal = true, x
		return s
	case len(dead) > 0:
		s := is("impossible: "+wording.Plural(len(dead), "rank")+" dead", "end the job", "%s", names(dead))
		s.never, s.shared = true, true
		return s
	case len(left) > 0:
		return is("ending", "", "%d of %s have ended it", len(left), ranks)
	case c.pending != nil:
		return standing{brief: fmt.Sprintf("to %.12s: %d of %d acknowledged", c.pending.Proposal.EffectDigest,
			len(c.Members)-len(c.pending.Missing), c.Ranks), finding: pendingFinding(c)}
	case len(c.Members) < c.Ranks:
		return is("not yet: ranks are missing",
			"if this does not pass, look for \"cannot change during the run\" in the logs of the others",
			"%d of %s have joined, and no change can come before all have", len(c.Members), ranks)
	case len(c.RefusedFiles) > 0:
		f := c.RefusedFiles[0]
		s := is("file refused", f.Remedy, "its ranks refuse %s: %s", f.File, f.Why)
		s.shared = true
		return s
	}
	s := standing{brief: "-"}
	if n := len(c.refused); n > 0 {
		last := c.refused[n-1]
		to, times, remedy := "", "", last.Remedy
		if last.Proposal != nil {
			to = fmt.Sprintf(" to version %.12s", last.Proposal.EffectDigest)
		}
		// Records of earlier refusals may be gone, so count by the number.
		if n := last.K - c.inForce; n > 1 {
			times = fmt.Sprintf(" (refusal %d since version %.12s came)", n, c.Version)
		}
		if len(c.lives(identity.Stopped)) > 0 {
			remedy = "" // processFindings says what to do
		}
		s = is("refused", remedy, "change %d%s was refused%s%s: %s", last.K, to, atTime(last.Decided), times, last.Why)
		s.refusal = last
	}
	if c.comparing() {
		s.brief = "comparing"
	}
	return s
}

// findings returns what a person should know beyond the table: of each communicator, then of processes and files.
func findings(all []*Communicator) (found []finding) {
	for _, c := range all {
		say := func(remedy, format string, args ...any) {
			found = append(found, finding{fmt.Sprintf("%s: %s", c.name(), fmt.Sprintf(format, args...)), remedy})
		}
		if s := c.standing(); s.Why != "" && !s.shared {
			say(s.Remedy, "%s", s.Why)
		}
		if with := c.Comparison; c.noComparison != nil {
			say("", "its comparison cannot be read: %v", c.noComparison)
		} else if with != nil {
			say("", "%s against %s, by turns: %s (%s)", with.A.Name, with.B.Name, with.Verdict(), with.Effort())
		}
		if c.Learning != nil {
			say("", "it learns, %s. %s", LearningState(*c.Learning), LearningHeadline(*c.Learning))
		}
		for _, fault := range c.Faults {
			say("", "a record cannot be read: %s", fault)
		}
	}
	return slices.Concat(found, processFindings(all), fileFindings(all), quietFindings(all))
}

// pendingFinding tells of the change that is under way. Where it says nothing to do, processFindings does.
func pendingFinding(c *Communicator) (f finding) {
	p := c.pending.Proposal
	proposer := fmt.Sprintf("rank index %d", p.Slot)
	if of := c.which(func(m member) bool { return m.Index == p.Slot }); len(of) > 0 {
		proposer = names(of)
	}
	f.Why = fmt.Sprintf("change %d to version %.12s, proposed%s by %s. Ranks acknowledge at their call %d and change "+
		"at call %d",
		c.pending.K, p.EffectDigest, atTime(c.pending.Proposed), proposer, p.Check, p.Switch)
	missing := c.missing()
	switch {
	case len(missing) == 0:
		return f
	case len(missing) == len(c.Members):
		f.Why += ".\nNo rank has acknowledged yet"
	default:
		f.Why += ".\nNot acknowledged: " + names(missing)
	}
	// Any rank that does not run holds up the others' calls.
	if slices.ContainsFunc(c.Members, func(m member) bool { return m.gone() || m.Life == identity.Stopped }) {
		return f
	}
	f.Remedy = "nothing while the job makes calls; a communicator that makes none changes when it does"
	var unknown []string
	for _, m := range missing {
		if m.Life == identity.Unknown && m.Host != "" {
			unknown = append(unknown, m.Host)
		}
	}
	if len(unknown) > 0 {
		f.Remedy += ". Whether these ranks run, tunefit status tells on " + few(distinct(unknown))
	}
	return f
}

// resume says how to continue stopped processes, which are on this machine.
func resume(stopped []member) string {
	var pids []string
	for _, alike := range cli.Groups(stopped, func(m member) int { return m.PID }) {
		pids = append(pids, fmt.Sprint(alike[0].PID))
	}
	return "kill -CONT " + strings.Join(pids, " ")
}

func atTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " at " + moment(t)
}

// processFindings names dead and stopped processes, which keep their communicators from changing.
func processFindings(all []*Communicator) (found []finding) {
	for _, state := range []identity.State{identity.Dead, identity.Stopped} {
		var members []member
		var comms []commName
		for _, c := range all {
			if some := c.lives(state); !c.Ended && len(some) > 0 {
				comms, members = append(comms, c.name()), append(members, some...)
			}
		}
		var processes []string
		for _, alike := range cli.Groups(members, member.String) {
			processes = append(processes, alike[0].String())
		}
		switch who := few(processes) + ", of " + listOf(comms); {
		case len(processes) == 0:
		case state == identity.Dead:
			found = append(found, finding{"dead: " + who + ". The policy stays as it is there, and the next " +
				"collective hangs or fails", "end the job, if it does not end by itself"})
		default:
			found = append(found, finding{"stopped by a signal or a debugger: " + who + ". Changes wait or are refused",
				resume(members)})
		}
	}
	return found
}

// fileFindings says of each file why its ranks refuse it.
func fileFindings(all []*Communicator) (found []finding) {
	for _, c := range all {
		for _, r := range c.RefusedFiles {
			found = append(found, finding{fmt.Sprintf("%s cannot be used as it is now: %s.\nThe ranks keep the "+
				"version they have. New jobs start without it, or not at all with %s=1", r.File, r.Why,
				tuner.EnvStrict), r.Remedy})
		}
	}
	slices.SortFunc(found, func(a, b finding) int { return strings.Compare(a.String(), b.String()) }) // by path
	return slices.Compact(found)
}

const byItself = "nothing: the ranks try it again by themselves, at first after 1 s, later after up to 60 s"

// refusals says why a change did not come. WHO is the rank that refused it, CALL its latest call.
var refusals = map[agree.Reason]finding{
	agree.Late: {"WHO heard of it only at its call CALL, beyond the checkpoint", byItself + ", with more time ahead"},
	agree.Slow: {"WHO came near the switch while some ranks had not acknowledged yet",
		byItself + ", with more time ahead. If it goes on, a rank lags far behind the others or is stopped"},
	agree.Stall: {"WHO waited for the others at the switch, and not all came soon enough",
		byItself + ". If it goes on, the ranks use their communicators in different orders, or one process asks " +
			"several ranks about groups of calls from one thread"},
	agree.Alike: {"all calls of the communicator were alike, so nothing would have told that a rank had made one " +
		"more than the others", "nothing: the ranks try it again once a call differs from the one before it. " +
		"NCCL_TUNER_RELOAD=uniform lets it come all the same"},
	agree.Superseded: {"another version was asked for meanwhile", "nothing: that version is next"},
	agree.CannotStage: {"WHO cannot use it: DETAIL",
		"mend what it says, then save the file again; after 5 such refusals the ranks wait for that"},
	agree.OtherBuild: {"the same files mean something else to WHO: it runs another build of the library, or its node " +
		"is not like the others", "install the same library on all nodes and start the job anew; compare the " +
		"versions that the ranks log at the start"},
	agree.Leaving: {"WHO was ending the communicator", "nothing"},
	agree.Misaligned: {"the ranks have not made the same calls since init",
		"call ncclGroupSimulateEnd on all ranks, with the same collectives, or on none: on some only, it keeps them " +
			"apart. The ranks try again by themselves, and the change comes once all have made the same calls"},
	agree.Duplicate: {"a second communicator with the same id exists, or this one's id was used before",
		"communicators that are created from now on take the file as it is"},
}

// inWords says why a change did not come, and what to do about it.
func (c *Communicator) inWords(d *agree.Decision) finding {
	who := fmt.Sprintf("rank index %d", d.By)
	for _, m := range c.Members {
		if m.Index == d.By {
			who = fmt.Sprintf("%s (%s)", m, m.place())
		}
	}
	f, known := refusals[d.Abort]
	if !known { // by a later release
		return finding{fmt.Sprintf("%s: %s", who, d), "compare the version of tunefit with the library's"}
	}
	f.Why = strings.NewReplacer("WHO", who, "CALL", fmt.Sprint(d.Calls), "DETAIL", d.Detail).Replace(f.Why)
	return f
}

// asked is how often NCCL has asked one rank, by the rank's file of metrics, which is up to 15 s old.
type asked struct {
	Calls uint64    `json:"calls"`
	Last  time.Time `json:"last,omitzero"` // zero: never
}

// readAsked looks into the metrics of the first rank here that writes some. nil: there is none, or it does not count.
func (c *Communicator) readAsked() *asked {
	const most = 4 << 20
	for _, m := range c.Members {
		if m.Left || m.Life != identity.Running && m.Life != identity.Stopped {
			continue
		}
		path, ok := m.Path(m.Getenv(tuner.EnvMetrics))
		if !ok {
			continue
		}
		text, err := safefile.Read(filepath.Join(path, metrics.FileName(m.Process)), most)
		if err != nil {
			continue
		}
		calls := metrics.Values(string(text), metrics.Calls, "comm_id", c.Name)
		last := metrics.Values(string(text), metrics.LastCall, "comm_id", c.Name)
		if len(calls) == 0 || len(last) == 0 {
			continue
		}
		a := &asked{Calls: uint64(slices.Max(calls))} // of several ranks in the process
		if seconds := slices.Max(last); seconds > 0 {
			a.Last = time.UnixMilli(int64(seconds * 1000))
		}
		return a
	}
	return nil
}

func (a *asked) String() string {
	switch {
	case a == nil:
		return "-"
	case a.Last.IsZero():
		return "not yet"
	}
	return fmt.Sprintf("%d times, last %s ago", a.Calls, minutes(time.Since(a.Last)))
}

// minutes does not name seconds: with --watch, each change of the text is printed.
func minutes(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "<1m"
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// quietFindings names communicators that NCCL has not asked about for a while.
func quietFindings(all []*Communicator) []finding {
	var quiet []string
	for _, c := range all {
		if a := c.Asked; a != nil && !c.Ended && min(time.Since(a.Last), time.Since(c.Since)) > time.Minute {
			quiet = append(quiet, c.Name)
		}
	}
	if len(quiet) == 0 {
		return nil
	}
	return []finding{{"not asked for a minute or more: " + few(quiet), "nothing, if the job makes no collectives " +
		"there now. Else something else takes them: replayed CUDA graphs, symmetric kernels, kernels of a " +
		"framework's own, MSCCL; no policy reaches these"}}
}

// writePrometheus prints communicators as status --prometheus does. unseen folders could not be looked at.
func writePrometheus(w io.Writer, all []*Communicator, unseen int) error {
	page := metrics.NewPage(metrics.Status)
	page.Add(metrics.StatusUnseen, float64(unseen))
	for _, c := range all {
		addPrometheus(page, c)
	}
	_, err := w.Write(page.Text())
	return err
}

func addPrometheus(page *metrics.Page, c *Communicator) {
	of := []string{wording.HideSecrets(c.Rendezvous), c.Name, strconv.Itoa(c.Ranks)}
	add := func(m metrics.Metric, value float64, labels ...string) {
		page.Add(m, value, append(slices.Clone(of), labels...)...)
	}
	if c.Version != "" {
		add(metrics.StatusVersion, 1, fmt.Sprintf("%.12s", c.Version), c.Policy, c.Model)
	}
	if !c.Since.IsZero() {
		add(metrics.StatusSince, float64(c.Since.Unix()))
	}
	states := map[string]int{"missing": c.Ranks - len(c.Members)}
	for _, m := range c.Members {
		if m.Left {
			states["left"]++
		} else {
			states[string(m.Life)]++
		}
	}
	for _, state := range []string{"running", "stopped", "dead", "unknown", "left", "missing"} {
		add(metrics.StatusRanks, float64(states[state]), state)
	}
	missing := 0
	if c.changes() {
		missing = len(c.pending.Missing)
	}
	page.AddIf(metrics.StatusPending, c.changes(), of...)
	add(metrics.StatusMissing, float64(missing))
	page.AddIf(metrics.StatusFrozen, c.Frozen, of...)
	page.AddIf(metrics.StatusRefused, len(c.RefusedFiles) > 0, of...)
	changes := map[agree.Reason]int{} // refused ones; "": committed
	for _, x := range c.Changes {
		switch {
		case x.State == committed:
			changes[""]++
		case x.State == refused && slices.Contains(agree.Reasons, x.Decision.Abort):
			changes[x.Decision.Abort]++
		case x.State == refused: // a record of anybody may give any reason
			changes["other"]++
		}
	}
	add(metrics.StatusChanges, float64(changes[""]), "committed", "")
	for _, why := range append(slices.Clone(agree.Reasons), "other") {
		add(metrics.StatusChanges, float64(changes[why]), "refused", string(why))
	}
	if c.isToCompare() {
		page.AddIf(metrics.StatusComparing, c.comparing(), of...)
	}
	add(metrics.StatusFaults, float64(len(c.Faults)))
}

// EffectPercent writes an effect: -2.1 %.
func EffectPercent(effect float64) string { return fmt.Sprintf("%+.1f %%", 100*effect) }

// EffectRange writes the 95 % interval of an effect, in percent: (-2.6 .. -1.7).
func EffectRange(effect, err float64) string {
	return fmt.Sprintf("(%+.1f .. %+.1f)", 100*(effect-trial.Surely*err), 100*(effect+trial.Surely*err))
}

// LearningHeadline says in a line what was tried, what it is worth and what it cost.
func LearningHeadline(e trial.Evidence) string {
	switch {
	case e.Blocks == 0 && e.State == trial.Nothing:
		return "There was nothing to try."
	case e.Blocks == 0:
		return "Nothing has been tried yet."
	}
	text := fmt.Sprintf("%s of %s; step %s.", wording.Plural(e.Blocks, "block"), profile.Duration(1e6*e.BlockSeconds),
		profile.Duration(1e6*e.StepSeconds))
	var best trial.Factor
	var most *trial.Arm
	settled := 0
	for _, f := range e.Factors {
		if f.Settled {
			settled++
		}
		if k := f.Leader(); k > 0 && (most == nil || f.Arms[k].Effect < most.Effect) {
			best, most = f, &f.Arms[k]
		}
	}
	if most == nil {
		text += " Nothing makes steps shorter for sure."
	} else {
		text += fmt.Sprintf(" %s %s %s instead of %s: %s of the step %s.", best.Coll,
			cli.SizeRange(best.Min, best.Max), most.Config, best.Arms[0].Config,
			EffectPercent(most.Effect), EffectRange(most.Effect, most.Error))
	}
	return text + fmt.Sprintf(" %d of %s settled. %s", settled, wording.Plural(len(e.Factors), "call signature"),
		cost(e))
}

// cost says how many steps trying has lost or gained, with the interval of 95 %.
func cost(e trial.Evidence) string {
	lost, half := e.LostSteps, trial.Surely*e.LostError
	switch {
	case lost > half:
		return fmt.Sprintf("Lost so far: %.0f steps (%.0f .. %.0f).", lost, lost-half, lost+half)
	case lost < -half:
		return fmt.Sprintf("Gained so far: %.0f steps (%.0f .. %.0f).", -lost, -lost-half, -lost+half)
	}
	return fmt.Sprintf("Not known whether steps are lost or gained so far: %.0f gained to %.0f lost.",
		half-lost, half+lost)
}

// LearningState says how far it has come, and what the comparison at the end has found.
func LearningState(e trial.Evidence) string {
	text := cmp.Or(map[trial.Learning]string{
		trial.Trying:  "trying",
		trial.Proving: "comparing what was learned with what was active before",
		trial.Learned: "validated; the rows are in " + tuner.LearnedFile,
		trial.Nothing: "ended",
		trial.Stopped: "stopped; the next job goes on from here",
	}[e.State], "not known")
	if e.Result != nil {
		text += ": " + e.Result.Verdict()
	}
	return text
}
