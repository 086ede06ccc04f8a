package bench

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// resolve adds what a closed run measured to the result. It changes nothing of the run.
func (u *testRun) resolve(r *Result) {
	r.MostChannels = u.log.most
	op := u.operation(r)
	failure, brokeOff := u.failure.of(len(u.rows)), false
	switch {
	case failure.line > 0 && !u.ended:
		r.note(failure.line, "%s", failure.advice(u.asks(op)))
		r.Failure, brokeOff = failure.said(), true
	case len(u.rows) == 0 && u.header:
		r.note(u.line, noteNoRow)
	case len(u.rows) > 0 && u.header && !u.ended:
		r.note(u.rows[len(u.rows)-1].line, noteCutOff)
		r.Failure, brokeOff = "its output was cut off", true
	}
	refused := u.log.refusedAll() || brokeOff && failure.byNCCL()
	if len(u.rows) == 0 && !refused && !brokeOff {
		return
	}
	comm := u.communicator(op, r)
	coll, known := collByName[string(op)]
	vain := request{testRun: u, sample: u.inVain(coll, comm, u.asks(op)), said: map[Sample]bool{}}
	u.notOffered(r, vain.sample)
	if (refused || brokeOff) && known && coll >= 0 && vain.isWhole() {
		vain.brokeOff(refused)
	}
	if len(u.rows) > 0 {
		u.resolveRows(r, op, comm, &vain)
	}
	r.Failed = append(r.Failed, vain.failed...)
}

// resolveRows adds the samples of the rows to what is found.
func (u *testRun) resolveRows(r *Result, op operation, comm nccl.Comm, vain *request) {
	if u.devices.split {
		r.note(u.line, noteSplit, wording.Quote(u.devices.group))
	}
	unknown := u.unknown()
	r.unknown = append(r.unknown, unknown...)
	setup, untuned, tuner := u.setup(unknown), (*Setup)(nil), ""
	if setup != nil { // untuned is that of passes which our tuner left to NCCL
		untuned, tuner = new(*setup), setup.Tuner
		untuned.Tuner = ""
	}
	if tuner != "" && u.log.obeyed == 0 && u.opts.Config == nil && u.settings.config(op) == noLabel {
		r.note(u.line, noteTuner, tuner)
	}
	all := map[operation]*labels{} // a CSV file may have several
	untold := unknown == nil && (u.isCSV && !u.tells || !u.isCSV && !u.mark.is && !u.complete)
	r.Samples = slices.Grow(r.Samples, len(u.rows))
	r.starts++
	for i := range u.rows {
		row := &u.rows[i]
		op := cmp.Or(row.op, op)
		l := all[op]
		if l == nil {
			l = u.labels(op, comm, u.refused(op, comm), anyChose(unknown))
			all[op] = l
		}
		called := u.log.at(op, row.Bytes, row.Pass)
		s := row.Sample
		s.Coll, s.Nodes, s.Ranks = l.coll, cmp.Or(s.Nodes, comm.Nodes), cmp.Or(s.Ranks, comm.Ranks)
		if row.failed && l.refused == "" {
			r.Failed = append(r.Failed, s)
			continue
		}
		reason := cmp.Or(row.reason, l.refused)
		if reason == "" && called.missing {
			reason = rejectNotOffered
		}
		from, with := originNone, setup
		if reason == "" {
			by := tuner
			if (called.inPass || u.mark.is) && called.byDefault() { // a sweep leaves it so on purpose
				by, with = "", untuned
			}
			var clash string
			if s.Config, from, s.Selection, clash = l.of(row, by); clash != "" {
				r.note(row.line, "%s", clash)
			}
			if from == originNone && unknown != nil {
				from = originAsked
			}
			if s.Setup == nil {
				s.Setup = with
			} else if unknown != nil {
				s.Setup = s.Setup.mentioning(setup.Variables)
			}
			s.Simulated = s.Simulated || u.devices.gpus[FakePerf]
			if u.mark.verify {
				s.Verify, s.Source = true, verifyWord+":"+s.Source
			}
			reason = s.unusable()
		}
		if l.refused == "" && (reason != "" || !vain.isMet(&s)) {
			vain.unmet(s.Bytes, s.Pass)
		}
		if reason != "" {
			r.reject(row.line, 1, reason)
			continue
		}
		if from == originNone && s.Selection == SelectionDefault && untold {
			r.Assumed++
		}
		r.Labels[from]++
		s.Start = cmp.Or(s.Start, r.starts)
		r.Samples = append(r.Samples, s)
	}
	if u.log.symmetric {
		r.note(u.line, noteSymmetric)
	}
}

// setup is what is known at a run's end; nil: nothing.
func (u *testRun) setup(unknown []mention) *Setup {
	s := u.known
	s.GPU, s.Hosts = joined(u.devices.gpus, " + "), joined(u.devices.hosts, " ")
	s.Tuner = cmp.Or(s.Tuner, loadedTuner(u.settings["NCCL_TUNER_PLUGIN"]))
	for name, into := range map[string]*string{"NCCL_MIN_NCHANNELS": &s.MinChannels, "NCCL_MIN_CTAS": &s.MinCTAs} {
		if n := atoi(u.settings[name]); n > 0 {
			*into = strconv.Itoa(n)
		}
	}
	variables := u.settings.variables(u.mark.setting)
	for _, m := range unknown {
		variables = append(variables, m.String())
	}
	slices.Sort(variables)
	s.Options, s.Variables = u.settings.options(), strings.Join(slices.Compact(variables), " ")
	return s.clean()
}

// unknown returns the settings of a run that are mentioned only.
func (u *testRun) unknown() (of []mention) {
	if u.mark.is || u.complete || u.isCSV && u.tells {
		return nil
	}
	said := u.opts.Default || u.opts.Config != nil
	forced := u.settings.forceCell()
	for _, m := range slices.Concat(u.mentions.of, hintsInName(u.file)) {
		_, told := u.settings[m.name]
		isRead := m.name == "NCCL_DEBUG_FILE" && u.joined != ""
		if !told && !isRead && !(said && m.chose()) && !(m.name == "" && forced) && !m.isUsual() {
			of = append(of, m)
		}
	}
	chosen := slices.ContainsFunc(sortedKeys(u.settings), chooses.MatchString)
	if _, told := u.settings[directAccess]; u.log.direct && !told && chosen {
		of = append(of, mention{directAccess, "", u.line, false})
	}
	return of
}

// refused says why none of the rows can be used; empty: they can.
func (u *testRun) refused(op operation, comm nccl.Comm) string {
	coll, known := collByName[string(op)]
	missed := strings.Contains(u.settings["NCCL_TUNER_PLUGIN"], "nccl-tuner-go") && !u.known.IsOurs()
	failed := func(r row) bool { return r.reason == rejectFailed }
	switch apart := u.apart(op, comm); {
	case u.mentions.timesCPU():
		return rejectCPUTime
	case u.failed && !slices.ContainsFunc(u.rows, failed): // as before nccl-tests 2.13
		return rejectFailedRun
	case known && coll < 0:
		return fmt.Sprintf(rejectNotAsked, op)
	case apart != "":
		return apart
	case !known:
		return rejectCollective
	case missed && !u.complete: // NCCL's log names our tuner as the one to load
		return rejectNotLoaded
	case u.log.refusedAll():
		return rejectNotOffered
	}
	return ""
}

// apart reports whether rows are those of several processes that ran a test each, or of one rank, which sends nothing.
func (u *testRun) apart(op operation, comm nccl.Comm) string {
	f, known := busFactor(u.rows)
	sendsNothing := known && f.low <= 0 && f.high < 0.01 && op != "broadcast" && op != "reduce"
	isLater := func(r row) bool { return r.Pass > 1 }
	switch {
	case u.isCSV:
	case u.devices.twice, u.mixed,
		u.headers > 1 && (!u.ended || u.ends > 1 || u.inherited || slices.ContainsFunc(u.rows, isLater)):
		return rejectMixed
	case f.low > f.high:
		return rejectSeveral
	case sendsNothing, u.devices.listed == 1 && u.comm.Ranks == 0 && comm.Ranks < 2 && u.settings.perProcess() == 1:
		return rejectAlone
	}
	return ""
}

// operation finds what the run measured, in the order of trust: the header, the
// command, NCCL's log, what the caller says, the rows.
func (u *testRun) operation(r *Result) (op operation) {
	byCaller := operation("")
	if u.opts.Coll != nil {
		byCaller = operation(u.opts.Coll.String())
	}
	if u.named() {
		return byCaller
	}
	for _, by := range []operation{programOperation(u.program), programOperation(u.mentions.program),
		u.log.operation(), byCaller, operation(u.mark.coll), u.guess()} {
		op = cmp.Or(op, by)
		// Two operations that no tuner is asked about print alike: gather and scatter, alltoall and hypercube.
		c, known := collByName[string(op)]
		d, alsoKnown := collByName[string(by)]
		if by != op && known && alsoKnown && (c >= 0 || d >= 0) {
			r.note(u.line, noteOperations, op, by)
		}
	}
	return op
}

// communicator finds the nodes and ranks, in the order of trust: NCCL's log, the caller, the list of devices, the
// sweep, threads x GPUs, the rows. What the rows tell rules out what the caller says.
func (u *testRun) communicator(op operation, r *Result) (c nccl.Comm) {
	if u.named() {
		return u.opts.Comm
	}
	byRows, least, most := 0, 0, 0
	if f, ok := busFactor(u.rows); ok {
		least, most = ranksOf(op, f)
	}
	if n := partsOf(u.rows); n > 1 && (op == "allgather" || op == "reducescatter") {
		least, most = n, n
	}
	if least == most && most > 1 {
		byRows = most
	}
	byCaller := u.opts.Comm
	if most > 0 && (byCaller.Ranks < least || byCaller.Ranks > most) {
		byCaller = nccl.Comm{}
	}
	listed := nccl.Comm{Ranks: u.devices.listed, Nodes: len(u.devices.hosts)}
	isCut := listed.Ranks > 0 && (!u.devices.whole || least > listed.Ranks)
	if isCut && least > listed.Ranks {
		listed.Ranks = byRows
	}
	if isCut || u.devices.shared {
		listed.Nodes = 0
	}
	c.Ranks = cmp.Or(u.comm.Ranks, byCaller.Ranks, listed.Ranks, u.mark.Ranks)
	c.Nodes = cmp.Or(u.comm.Nodes, byCaller.Nodes, listed.Nodes, u.mark.Nodes)
	switch otherwise := u.countsOtherwise(); {
	case c.Nodes == 0 && isCut && c.Ranks > 0:
		r.note(u.line, noteListCut, c.Ranks)
	case c.Nodes == 0 && u.devices.shared:
		r.note(u.line, noteSharedName)
	case u.comm.Nodes+byCaller.Nodes == 0 && listed.Nodes > 0 && otherwise != "":
		r.note(u.line, noteHosts, wording.Plural(listed.Nodes, "host"), otherwise)
	}
	n := u.settings.perProcess()
	if c.Ranks == 0 && n > 0 && least <= n && n <= most { // else it may be one process of several
		c.Ranks, c.Nodes = n, cmp.Or(c.Nodes, 1)
	}
	c.Ranks = cmp.Or(c.Ranks, byRows)
	if c.Ranks == 0 && least > 1 {
		r.note(u.line, noteManyRanks, least)
		return c
	}
	var said []string
	isDisputed := false
	for _, by := range []struct {
		who string
		nccl.Comm
	}{{"NCCL's log", u.comm}, {"--comm", u.opts.Comm}, {"the list of devices", listed},
		{"busbw and algbw", nccl.Comm{Ranks: byRows}}} {
		if by.Ranks > 0 {
			said = append(said, by.who+" "+commText(by.Comm))
			isDisputed = isDisputed || by.Ranks != c.Ranks || by.who == "--comm" && by.Nodes != c.Nodes
		}
	}
	if isDisputed {
		r.note(u.line, noteComm, commText(c), strings.Join(said, ", "))
	}
	return c
}

// commText is 2x8, or 16 ranks.
func commText(c nccl.Comm) string {
	if c.Nodes == 0 {
		return wording.Plural(c.Ranks, "rank")
	}
	return strings.TrimPrefix(c.String(), "of ")
}

// nvlDomain are GPUs of machines in which one NVLink domain has several hosts.
var nvlDomain = regexp.MustCompile(`\bGB[23]00\b`)

// countsOtherwise says why NCCL's nodes may not be the hosts; "": they are.
func (u *testRun) countsOtherwise() string {
	v, level := u.settings, u.settings["NCCL_P2P_LEVEL"]
	if v["NCCL_HOSTID"] != "" {
		return "under NCCL_HOSTID"
	}
	if (v["NCCL_P2P_DISABLE"] == "1" || level == "LOC" || level == "0") && v["NCCL_SHM_DISABLE"] == "1" {
		return "without P2P and SHM"
	}
	for _, gpu := range sortedKeys(u.devices.gpus) {
		if len(u.devices.hosts) > 1 && nvlDomain.MatchString(gpu) {
			return "in an NVL72 (" + wording.Line(gpu) + ")"
		}
	}
	return ""
}
