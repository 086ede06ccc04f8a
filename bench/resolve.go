package bench

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// resolve finds what a closed run measured. It changes nothing: all that it finds is in what it returns.
func (u *testRun) resolve() *Result {
	r := &Result{File: u.file, MostChannels: u.log.most}
	op, said := u.operation()
	failure, brokeOff := u.failure.of(len(u.rows)), false
	switch {
	case failure.line > 0 && !u.footer:
		r.note(failure.line, "%s", failure.advice(u.asks(op)))
		r.Failure, brokeOff = failure.said(), true
	case len(u.rows) == 0 && u.header:
		r.note(u.line, noteNoRow)
	case len(u.rows) > 0 && u.header && !u.footer:
		r.note(u.rows[len(u.rows)-1].line, noteCutOff)
		r.Failure, brokeOff = "its output was cut off", true
	}
	refused := u.log.refusedAll() || brokeOff && failure.byNCCL()
	if len(u.rows) == 0 && !refused && !brokeOff {
		return r
	}
	comm, more := u.communicator(op)
	r.keep(append(said, more...))
	r.NotOffered = u.notOffered(comm)
	coll, known := collByName[string(op)]
	asked := request{sample: u.inVain(coll, comm, u.asks(op)), log: &u.log, said: map[asking]bool{}}
	if (refused || brokeOff) && known && coll >= 0 && comm.Nodes >= 1 && comm.Ranks >= 2 {
		if !refused {
			asked.unreached(u)
		} else if s := asked.sample; s.Known() {
			if u.log.refusedAll() {
				s.Channels = 0 // what is offered does not depend on them
			}
			r.Failed = append(r.Failed, s)
		}
	}
	if len(u.rows) > 0 {
		u.resolveRows(r, op, comm, &asked)
	}
	r.Failed = append(r.Failed, asked.failed...)
	return r
}

// resolveRows adds the samples of the rows to what is found.
func (u *testRun) resolveRows(r *Result, op operation, comm nccl.Comm, asked *request) {
	if u.devices.split {
		r.note(u.line, noteSplit, wording.Quote(u.devices.group))
	}
	r.unknown = u.unknown()
	setup, untuned, tuner := u.setup(r.unknown), (*Setup)(nil), ""
	if setup != nil { // untuned is that of passes which our tuner left to NCCL
		untuned, tuner = new(*setup), setup.Tuner
		untuned.Tuner = ""
	}
	if tuner != "" && u.log.obeyed == 0 && !u.asksCell(op) {
		r.note(u.line, noteTuner, tuner)
	}
	// What is known of all rows of an operation: a CSV file may have several.
	type ofAll struct {
		coll    nccl.Coll
		refused string
		claims  []claim
	}
	all := map[operation]ofAll{}
	scale, unsure := u.log.scaleOf(op, u.rows, comm.Ranks), anyChose(r.unknown)
	untold := r.unknown == nil && (u.isCSV && !u.tells || !u.isCSV && u.mark == nil && !u.complete)
	for i := range u.rows {
		row := &u.rows[i]
		op, s := cmp.Or(row.op, op), row.Sample
		of, known := all[op]
		if !known {
			of = ofAll{collByName[string(op)], u.refused(op, comm), u.claims(op, tuner)}
			all[op] = of
		}
		key := u.log.of(op, s.Bytes, s.Pass)
		s.Coll, s.Nodes, s.Ranks = of.coll, cmp.Or(s.Nodes, comm.Nodes), cmp.Or(s.Ranks, comm.Ranks)
		if row.failed && of.refused == "" {
			r.Failed = append(r.Failed, s)
			continue
		}
		reason := cmp.Or(row.reason, of.refused)
		if reason == "" && u.log.at(key).missing {
			reason = rejectNotOffered
		}
		if reason != "" {
			if r.reject(row.line, 1, reason); of.refused == "" {
				asked.unmet(s.Bytes, s.Pass)
			}
			continue
		}
		claims, with := of.claims, setup
		if u.log.byDefault(key) {
			claims, with = u.claims(op, ""), untuned
		}
		l, by, clash := u.label(row, key, scale, claims, unsure)
		if clash != "" {
			r.note(row.line, "%s", clash)
		}
		s.Config, s.Selection = l.Config, by
		if l.from == originNone && r.unknown != nil {
			l.from = originAsked
		}
		if s.Setup == nil {
			s.Setup = with
		} else if r.unknown != nil {
			s.Setup = s.Setup.mentioning(setup.Variables)
		}
		s.Simulated = s.Simulated || u.devices.gpus[FakePerf]
		if u.mark != nil && u.mark.verify {
			s.Verify, s.Source = true, verifyWord+":"+s.Source
		}
		reason = s.unusable()
		if !asked.areMet(&s) || reason != "" {
			asked.unmet(s.Bytes, s.Pass)
		}
		if reason != "" {
			r.reject(row.line, 1, reason)
			continue
		}
		if l.from == originNone && s.Selection == SelectionDefault && untold {
			r.Assumed++
		}
		r.Labels[l.from]++
		r.Samples = append(r.Samples, s)
	}
	if u.log.symmetric {
		r.note(u.line, noteSymmetric)
	}
}

// refused says why none of the rows can be used; empty: they can.
func (u *testRun) refused(op operation, comm nccl.Comm) string {
	coll, known := collByName[string(op)]
	missed := strings.Contains(u.variables["NCCL_TUNER_PLUGIN"], "nccl-tuner-go") && !u.known.IsOurs()
	failed := func(r row) bool { return r.reason == rejectFailed }
	switch apart := u.apart(op, comm); {
	case u.mentions.timesCPU():
		return rejectCPUTime
	case u.failed && !slices.ContainsFunc(u.rows, failed): // as before nccl-tests 2.13
		return rejectFailedRun
	case !known:
		return rejectCollective
	case coll < 0:
		return fmt.Sprintf(rejectNotAsked, op)
	case apart != "":
		return apart
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
	passes := 0
	for i := range u.rows {
		passes = max(passes, u.rows[i].Pass)
	}
	_, isColl := collByName[string(op)]
	switch {
	case u.isCSV:
	case u.devices.twice, u.headers > 1 && (passes > 1 || u.footers > 1 || u.inherited):
		return rejectMixed
	case known && isColl && op != "broadcast" && op != "reduce" && f.low <= 0 && f.high < 0.01,
		isColl && u.devices.listed == 1 && u.comm.Ranks == 0 && comm.Ranks < 2 && u.perProcess() == 1:
		return rejectAlone
	}
	return ""
}

// operation finds what the run measured, in the order of trust: the header, the
// command, NCCL's log, what the caller says, the rows.
func (u *testRun) operation() (op operation, said notes) {
	byCaller := operation("")
	if u.opts.Coll != nil {
		byCaller = operation(u.opts.Coll.String())
	}
	if u.named() {
		return byCaller, nil
	}
	sources := []operation{programOperation(u.program), programOperation(u.mentions.program), u.log.operation(),
		byCaller}
	if u.mark != nil {
		sources = append(sources, operation(u.mark.coll))
	}
	for _, by := range append(sources, guess(u.rows)) {
		if op == "" {
			op = by
		}
		// Two operations that no tuner is asked about print alike: gather and scatter, alltoall and hypercube.
		c, known := collByName[string(op)]
		d, alsoKnown := collByName[string(by)]
		if by != op && known && alsoKnown && (c >= 0 || d >= 0) {
			said.add(u.line, noteOperations, op, by)
		}
	}
	return op, said
}

// communicator finds the nodes and ranks, in the order of trust: NCCL's log, the caller, the list of devices,
// threads x GPUs, the rows.
func (u *testRun) communicator(op operation) (c nccl.Comm, said notes) {
	byCaller := u.opts.Comm
	if u.named() {
		return byCaller, nil
	}
	byRows := 0
	if f, ok := busFactor(u.rows); ok {
		byRows = ranksOf(op, f)
	}
	if n := parts(u.rows); n > 1 && (op == "allgather" || op == "reducescatter") {
		byRows = n
	}
	if byCaller.Ranks > 0 && byRows > 0 && byCaller.Ranks != byRows {
		said.add(u.line, noteCommRefused, byCaller, byRows)
		byCaller = nccl.Comm{}
	}
	listed, hosts, whole := u.devices.listed, len(u.devices.hosts), u.devices.whole
	if byRows > listed && listed > 0 {
		listed, whole = byRows, false
	}
	if !whole || u.devices.shared {
		hosts = 0
	}
	noMark := sweepMark{}
	mark := cmp.Or(u.mark, &noMark)
	c.Ranks = cmp.Or(u.comm.Ranks, byCaller.Ranks, listed, mark.Ranks)
	c.Nodes = cmp.Or(u.comm.Nodes, byCaller.Nodes, hosts, mark.Nodes)
	switch {
	case c.Nodes > 0 || listed == 0:
	case u.devices.shared:
		said.add(u.line, noteSharedName)
	case !whole:
		said.add(u.line, noteListCut, c.Ranks)
	}
	if u.comm.Ranks > 0 && listed > 0 && u.comm.Ranks != listed {
		said.add(u.line, noteListed, u.comm.Ranks, listed)
	}
	if byCaller.Ranks > 0 && (c != byCaller || listed > 0 && listed != byCaller.Ranks) {
		log := "nothing"
		if u.comm.Ranks > 0 {
			log = strings.TrimPrefix(u.comm.String(), "of ")
		}
		said.add(u.line, noteComm, c, byCaller, log, wording.Plural(listed, "device"),
			wording.Plural(len(u.devices.hosts), "host"))
	}
	if c.Nodes == hosts && u.comm.Nodes == 0 && u.opts.Nodes == 0 && hosts > 0 {
		said = append(said, u.doubtNodes()...)
	}
	if n := u.perProcess(); c.Ranks == 0 && n > 0 {
		if c.Ranks = cmp.Or(byRows, n); c.Ranks == n { // else it is one process of several
			c.Nodes = cmp.Or(c.Nodes, 1)
		}
	}
	c.Ranks = cmp.Or(c.Ranks, byRows)
	if byRows > 0 && byRows != c.Ranks {
		said.add(u.line, noteRanks, c.Ranks, byRows)
	}
	return c, said
}

// nvlDomain are GPUs of machines in which one NVLink domain has several hosts.
var nvlDomain = regexp.MustCompile(`\bGB[23]00\b`)

// doubtNodes notes where hosts are counted as nodes, and NCCL may count otherwise.
func (u *testRun) doubtNodes() (said notes) {
	v, hosts := u.variables, len(u.devices.hosts)
	level := v["NCCL_P2P_LEVEL"]
	noP2P := v["NCCL_P2P_DISABLE"] == "1" || level == "LOC" || level == "0"
	if noP2P && v["NCCL_SHM_DISABLE"] == "1" || v["NCCL_HOSTID"] != "" {
		said.add(u.line, noteHosts, wording.Plural(hosts, "host"))
		return said
	}
	for _, gpu := range slices.Sorted(maps.Keys(u.devices.gpus)) {
		if hosts > 1 && nvlDomain.MatchString(gpu) {
			said.add(u.line, noteNVL72, hosts, wording.Line(gpu))
			return said
		}
	}
	return nil
}

// inVain is a sample of what did not run.
func (u *testRun) inVain(coll nccl.Coll, comm nccl.Comm, c nccl.Config) Sample {
	return Sample{Call: nccl.Call{Coll: coll}, Comm: comm, Config: c, Selection: SelectionForced, Source: u.file,
		Simulated: u.devices.gpus[FakePerf]}
}

// notOffered is what NCCL does not have for a communicator, by our library's log and by NCCL's of its links.
// NCCL_ALGO and NCCL_PROTO change what our library sees, so its log tells nothing of a run with them. The links do:
// GPUs that meet in the host's memory have no NVLink for NCCL, and then it offers LL128 to nobody (docs/dev/NCCL.md).
func (u *testRun) notOffered(comm nccl.Comm) (all []Sample) {
	if comm.Nodes < 1 || comm.Ranks < 2 {
		return nil
	}
	forced := u.variables["NCCL_ALGO"] != "" || u.variables["NCCL_PROTO"] != ""
	missing := u.log.missing()
	noLL128 := u.log.sharesMem && !nccl.IsRCCL(u.known.NCCL)
	for _, coll := range nccl.AllColls() {
		has := u.log.offered[coll]
		for algo, proto := range nccl.Cells {
			cell := nccl.Cell{Algo: algo, Proto: proto}
			isNot := !forced && (has != nil && !has[cell] || missing[family{operation(coll.String()), cell}]) ||
				noLL128 && proto == nccl.ProtoLL128
			if isNot && nccl.Offers(coll, cell) {
				all = append(all, u.inVain(coll, comm, nccl.Config{Cell: cell}))
			}
		}
	}
	return all
}

// request is what a run was told to measure, by NCCL's variables, the caller, tunefit sweep and our tuner's decisions.
type request struct {
	sample Sample // of no size: the communicator, and the configuration of the whole run, if there is one
	log    *tuningLog
	said   map[asking]bool // what unmet has recorded
	failed []Sample
}

// asking is a configuration that was asked for at a size.
type asking struct {
	nccl.Config
	bytes uint64
}

// at is the configuration that was asked for at a size; ok is false where that is not known.
func (a *request) at(size uint64, pass int) (l nccl.Config, ok bool) {
	l = a.sample.Config
	logged := a.log.at(a.log.of(operation(a.sample.Coll.String()), size, pass))
	if logged.asked != nil {
		return *logged.asked, true
	}
	if d := cmp.Or(logged.decided, &noLabel); *d != noLabel && (d.Cell != l.Cell || d.Channels > 0) {
		l = *d
	}
	return l, l.Known()
}

// areMet reports whether a sample ran with the configuration that was asked for.
func (a *request) areMet(s *Sample) bool {
	l, ok := a.at(s.Bytes, s.Pass)
	counted := l.Channels == 0 || s.Channels == l.Channels && s.Selection != SelectionOwnChannels
	return !ok || counted && s.Cell == l.Cell
}

// unmet records, once, that the configuration that was asked for did not run at a size.
func (a *request) unmet(size uint64, pass int) {
	l, ok := a.at(size, pass)
	s, of := a.sample, asking{l, size}
	s.Bytes, s.Config = size, l
	if ok && !a.said[of] && s.Nodes >= 1 && s.Ranks >= 2 && size > 0 {
		a.said[of] = true
		a.failed = append(a.failed, s)
	}
}

// unreached records the sizes that a run had not measured when it broke off.
func (a *request) unreached(u *testRun) {
	measured, pass := map[uint64]bool{}, 1 // that it broke off in
	for i := range u.rows {
		if u.rows[i].Pass > pass {
			measured, pass = map[uint64]bool{}, u.rows[i].Pass
		}
		measured[u.rows[i].Bytes] = true
	}
	unit := TrimUnit(a.sample.Coll, a.sample.Ranks)
	for _, size := range u.sizes {
		if size -= size % unit; !measured[size] {
			a.unmet(size, pass)
		}
	}
}

// unknown returns the settings of a run that are mentioned only.
func (u *testRun) unknown() (of []mention) {
	if u.mark != nil || u.complete || u.isCSV && u.tells {
		return nil
	}
	said := u.opts.Default || u.opts.Config != nil
	forced := u.variables["NCCL_ALGO"]+u.variables["NCCL_PROTO"] != ""
	for _, m := range slices.Concat(u.mentions.of, hintsInName(u.file)) {
		_, known := u.variables[m.name]
		_, told := u.settings[m.name]
		switch {
		case known, told, said && m.chose(), m.name == "" && forced, m.isUsual():
		case m.name == "NCCL_DEBUG_FILE" && u.joined != "":
		default:
			of = append(of, m)
		}
	}
	chosen := slices.ContainsFunc(slices.Collect(maps.Keys(u.variables)), chooses.MatchString)
	if _, told := u.variables[directAccess]; u.log.direct && !told && chosen {
		of = append(of, mention{directAccess, "", u.line, false})
	}
	return of
}

// directAccess is RCCL's variable for it.
const directAccess = "RCCL_DDA_ENABLE"

// anyChose reports whether one of the settings may have chosen instead of NCCL.
func anyChose(unknown []mention) bool {
	return slices.ContainsFunc(unknown, func(m mention) bool { return m.chose() || m.name == directAccess })
}

// setup is what is known at a run's end; nil: nothing.
func (u *testRun) setup(unknown []mention) *Setup {
	s := u.known
	s.GPU, s.Hosts = u.devices.models, u.devices.names
	s.Tuner = cmp.Or(s.Tuner, loadedTuner(u.variables["NCCL_TUNER_PLUGIN"]))
	for name, into := range map[string]*string{"NCCL_MIN_NCHANNELS": &s.MinChannels, "NCCL_MIN_CTAS": &s.MinCTAs} {
		if n, err := strconv.Atoi(u.variables[name]); err == nil && n > 0 {
			*into = strconv.Itoa(n)
		}
	}
	var setting variables
	if u.mark != nil {
		setting = u.mark.setting
	}
	var mentioned []string
	for _, m := range unknown {
		mentioned = append(mentioned, m.String())
	}
	s.Options, s.Variables = u.settings.String(), u.variables.changing(mentioned, setting)
	return s.clean()
}
