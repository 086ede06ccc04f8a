package bench

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// notOffered records what NCCL does not have for a communicator, by our library's log and by NCCL's of its links.
// NCCL_ALGO and NCCL_PROTO change what our library sees, so its log tells nothing of a run with them. The links do:
// GPUs that meet in the host's memory have no NVLink for NCCL, and then it offers LL128 to nobody (docs/dev/NCCL.md).
func (u *testRun) notOffered(r *Result, comm nccl.Comm) {
	if comm.Nodes < 1 || comm.Ranks < 2 {
		return
	}
	forced := u.variables.get("NCCL_ALGO") != "" || u.variables.get("NCCL_PROTO") != ""
	missing := u.log.missingCells()
	noLL128 := u.log.sharesMem && !nccl.IsRCCL(u.metadata.NCCL)
	for _, coll := range nccl.AllColls() {
		has := u.log.offered[coll]
		for algo, proto := range nccl.Cells {
			cell := nccl.Cell{Algo: algo, Proto: proto}
			isNot := (has != nil && !has[cell] || missing[coll][cell]) && !forced || noLL128 && proto == nccl.ProtoLL128
			if !isNot || !nccl.Offers(coll, cell) {
				continue
			}
			s := Sample{Call: nccl.Call{Coll: coll}, Comm: comm, Config: nccl.Config{Cell: cell},
				Selection: SelectionForced, Source: r.File, Simulated: u.metadata.gpus[FakePerf]}
			if !r.notOffered[s] {
				r.notOffered[s] = true
				r.NotOffered = append(r.NotOffered, s)
			}
		}
	}
}

// withoutTuner is what is claimed of a pass that our tuner left to NCCL, and where it was measured: without the tuner,
// which decided nothing.
func (u *testRun) withoutTuner(r *Result, op operation, setup *Setup) ([]claim, *Setup) {
	if u.untuned == nil && setup != nil {
		u.untuned = new(*setup)
		u.untuned.Tuner = ""
	}
	others := maps.Clone(u.variables)
	delete(others, "NCCL_TUNER_PLUGIN")
	return r.claims(others, op), u.untuned
}

// finish turns the rows of a run into samples.
func (u *testRun) finish(r *Result) {
	u.variables = u.variables.with(r.opts.With)
	r.MostChannels = u.log.most
	brokeOff := false
	if f := &u.metadata.failure; f.found(len(u.rows)) && !u.footer {
		brokeOff = true
		if l := r.asked(u.variables, u.operation(r)); l.Known() {
			f.config = l.Label()
		}
		r.note(f.line, "%s", f)
		r.Failure = f.said()
	} else if len(u.rows) == 0 {
		if u.header && !u.inherited {
			r.note(u.line, "a run without a single row")
		}
	} else if u.header && !u.footer {
		r.note(u.rows[len(u.rows)-1].line, "the run has no last lines: it was cut off, or the file was")
		r.Failure, brokeOff = "its output was cut off", true
	}
	refused := u.log.refusedAll() || brokeOff && u.metadata.failure.byNCCL()
	if len(u.rows) == 0 && !refused && !brokeOff {
		return
	}
	op := u.operation(r)
	comm := u.communicator(r, op)
	coll, known := collByName[string(op)]
	u.notOffered(r, comm)
	claims := r.claims(u.variables, op)
	asked := u.request(coll, comm, r)
	if (refused || brokeOff) && known && coll >= 0 && comm.Nodes >= 1 && comm.Ranks >= 2 {
		u.fail(r, asked, refused)
	}
	if len(u.rows) == 0 {
		return
	}
	if u.devices.split {
		r.note(u.line, "the ranks form several communicators; counted are those of group %s",
			wording.Quote(u.devices.group))
	}
	u.checkFailed()
	u.countPasses()
	unusable := "" // why all of them are
	switch {
	case !known:
		unusable = rejectCollective
	case coll < 0:
		unusable = fmt.Sprintf(rejectNotAsked, op)
	case u.apart(op, comm) != "":
		unusable = u.apart(op, comm)
	case !u.complete && u.metadata.missedTuner(u.variables):
		unusable = rejectNotLoaded
	case u.log.refusedAll():
		unusable = rejectNotOffered
	}
	_, u.forced = u.variables.saysChannels()
	unknown := u.unknown(r)
	for _, m := range unknown {
		r.unknown[m.String()] = m
	}
	setup := u.setup(unknown)
	if setup != nil && setup.Tuner != "" {
		if u.log.obeyed == 0 &&
			!slices.ContainsFunc(claims, func(c claim) bool { return c.forcesCell && c.Config != noLabel }) {
			r.note(u.line, "the tuner plugin %s was loaded: these times are not the library's default", setup.Tuner)
		}
		claims = append(claims, claim{Config: noLabel, forcesCell: true, forcesChannels: true})
	}
	scale := u.log.scaleOf(op, u.rows, comm.Ranks)
	unsure := !u.isCSV && anyChose(unknown)
	untold := !u.isCSV && !r.mark.is && !u.complete && unknown == nil
	r.starts++
	for i := range u.rows {
		row := &u.rows[i]
		row.Start = r.starts
		if u.mentions.cpuTime {
			row.reason = rejectCPUTime
		}
		key := u.log.of(op, row.Bytes, row.Pass)
		missing := "" // of a pass
		if u.log.missing[key] {
			missing = rejectNotOffered
		}
		if reason := cmp.Or(row.reason, unusable, missing); reason != "" {
			r.reject(row.line, 1, reason)
			if unusable == "" {
				asked.unmet(r, row.Bytes, row.Pass)
			}
			continue
		}
		s := &row.Sample
		s.Coll = coll
		s.Nodes, s.Ranks = cmp.Or(s.Nodes, comm.Nodes), cmp.Or(s.Ranks, comm.Ranks)
		who, with := claims, setup
		if u.log.byDefault(key) {
			who, with = u.withoutTuner(r, op, setup)
		}
		from := u.label(r, row, key, scale, who, unsure)
		if from == originNone && len(unknown) > 0 {
			from = originAsked
		}
		if from == originNone && s.Selection == SelectionDefault && untold {
			r.Assumed++
		}
		if !asked.areMet(s) || s.unusable() != "" {
			asked.unmet(r, s.Bytes, s.Pass)
		}
		s.Setup, s.Simulated = cmp.Or(s.Setup, with), s.Simulated || u.metadata.gpus[FakePerf]
		if r.mark.verify {
			s.Verify, s.Source = true, verifyWord+":"+s.Source
		}
		r.add(row.line, *s, from)
	}
	if u.log.symmetric {
		r.note(u.line, "symmetric kernels ran: those rows have no algorithm")
	}
}

// fail records that a run did not measure the configuration that it asked for. If NCCL refused that, the record has no
// size. If the run broke off, there is a record for each size that was still to come.
func (u *testRun) fail(r *Result, asked *request, refused bool) {
	s := asked.sample
	if u.log.refusedAll() {
		s.Channels = 0 // what is offered does not depend on them
	}
	if !refused {
		u.unreached(r, asked)
	} else if s.Known() {
		r.Failed = append(r.Failed, s)
	}
}

// operation finds what the run measured, in the order of trust: the header, the
// command, NCCL's log, what the caller says, the rows.
func (u *testRun) operation(r *Result) operation {
	guessed := guess(u.rows, u.blankRedOp)
	said := []operation{programOperation(u.program), programOperation(u.mentions.program), u.log.operation()}
	if r.opts.Coll != nil {
		said = append(said, operation(r.opts.Coll.String()))
	}
	said = append(said, operation(r.mark.coll), guessed)
	for i, op := range said {
		if op == "" {
			continue
		}
		for _, other := range said[i+1:] {
			if other != "" && other != op && u.tells(op, other) {
				r.note(u.line, "the run is %s by its header or command, but %s by its rows or --coll: the first is "+
					"used", op, other)
			}
		}
		return op
	}
	return ""
}

// tells reports whether other contradicts op. Two operations that no tuner is asked about do not: gather and scatter
// print alike, and so do alltoall and hypercube.
func (u *testRun) tells(op, other operation) bool {
	c, known := collByName[string(op)]
	d, alsoKnown := collByName[string(other)]
	return known && alsoKnown && (c >= 0 || d >= 0)
}

// communicator finds the nodes and ranks, in the order of trust: NCCL's log, the caller, the list of devices,
// threads x GPUs, the rows.
func (u *testRun) communicator(r *Result, op operation) (c nccl.Comm) {
	byRows := 0
	if f, ok := busFactor(u.rows); ok {
		byRows = ranksOf(op, f)
	}
	if op == "allgather" || op == "reducescatter" {
		if n := parts(u.rows); n > 1 {
			byRows = n
		}
	}
	if !u.inherited {
		u.listed, u.whole = u.devices.count(u.threads)
	}
	said, hosts := r.opts.Comm, len(u.devices.hosts)
	if said.Ranks > 0 && byRows > 0 && said.Ranks != byRows {
		r.note(u.line, "--comm %s is not used: busbw and algbw are those of %d ranks", said, byRows)
		said = nccl.Comm{}
	}
	if byRows > u.listed && u.listed > 0 {
		u.listed, u.whole = byRows, false
	}
	if !u.whole || u.devices.shared {
		hosts = 0
	}
	c.Ranks = cmp.Or(u.comm.Ranks, said.Ranks, u.listed, r.mark.Ranks)
	c.Nodes = cmp.Or(u.comm.Nodes, said.Nodes, hosts, r.mark.Nodes)
	switch {
	case c.Nodes > 0 || u.listed == 0:
	case u.devices.shared:
		r.note(u.line, "a GPU is listed twice on a host: several hosts have one name, and their number is not known "+
			"(needed: --comm NODESxRANKS_PER_NODE)")
	case !u.whole:
		r.note(u.line, "the list of devices was cut: %d ranks by their numbers and by busbw and algbw, on an unknown "+
			"number of nodes (needed: --comm NODESxRANKS_PER_NODE)", c.Ranks)
	}
	if u.comm.Ranks > 0 && u.listed > 0 && u.comm.Ranks != u.listed {
		r.note(u.line, "%d ranks by NCCL's log, but %d devices are listed: the first is used", u.comm.Ranks, u.listed)
	}
	if said.Ranks > 0 && (c != said || u.listed > 0 && u.listed != said.Ranks) {
		r.note(u.line, "%s is used; --comm is %s, NCCL's log says %s, and %s on %s are listed", c, said,
			cmp.Or(u.loggedComm(), "nothing"), wording.Plural(u.listed, "device"),
			wording.Plural(len(u.devices.hosts), "host"))
	}
	u.doubtNodes(r)
	if c.Ranks == 0 && u.threads > 0 {
		c.Ranks = u.threads
		if byRows > 0 && byRows != c.Ranks { // one process of several
			c.Ranks = byRows
		} else {
			c.Nodes = cmp.Or(c.Nodes, 1)
		}
	}
	c.Ranks = cmp.Or(c.Ranks, byRows)
	if byRows > 0 && byRows != c.Ranks {
		r.note(u.line, "%d ranks by the header, but %d by the ratio of busbw and algbw: the first is used",
			c.Ranks, byRows)
	}
	return c
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
	case u.devices.twice, u.headers > 1 && (passes > 1 || u.footers > 1 || u.inherited):
		return rejectMixed
	case known && isColl && op != "broadcast" && op != "reduce" && f.low <= 0 && f.high < 0.01,
		isColl && u.listed == 1 && u.comm.Ranks == 0 && comm.Ranks < 2 && u.threads == 1:
		return rejectAlone
	}
	return ""
}

// loggedComm is the communicator in NCCL's log, as far as the log tells.
func (u *testRun) loggedComm() string {
	switch {
	case u.comm.Nodes > 0 && u.comm.Ranks > 0:
		return u.comm.String()
	case u.comm.Ranks > 0:
		return strconv.Itoa(u.comm.Ranks) + " ranks"
	}
	return ""
}

// nvlDomain are GPUs of machines in which one NVLink domain has several hosts.
var nvlDomain = regexp.MustCompile(`\bGB[23]00\b`)

// doubtNodes notes where hosts are counted as nodes, and NCCL may count otherwise.
func (u *testRun) doubtNodes(r *Result) {
	hosts := len(u.devices.hosts)
	if u.comm.Nodes > 0 || r.opts.Nodes > 0 || hosts == 0 || !u.whole {
		return
	}
	const ask = "(NCCL's log with NCCL_DEBUG=INFO says nNodes; else give tunefit import --comm NODESxRANKS_PER_NODE)"
	level := u.variables.get("NCCL_P2P_LEVEL")
	noP2P := u.variables.get("NCCL_P2P_DISABLE") == "1" || level == "LOC" || level == "0"
	if noP2P && u.variables.get("NCCL_SHM_DISABLE") == "1" || u.variables.get("NCCL_HOSTID") != "" {
		r.note(u.line, "%s counted as nodes, but without P2P and SHM, or under NCCL_HOSTID, NCCL counts otherwise %s",
			wording.Plural(hosts, "host"), ask)
		return
	}
	for _, gpu := range slices.Sorted(maps.Keys(u.metadata.gpus)) {
		if hosts > 1 && nvlDomain.MatchString(gpu) {
			r.note(u.line, "%d hosts are counted as nodes, but NCCL takes the hosts of an NVL72 (%s) for one node %s",
				hosts, wording.Line(gpu), ask)
			return
		}
	}
}

// failed is a configuration that did not run as it was asked for, at a size.
type failed struct {
	nccl.Config
	bytes uint64
}

// request is what a run was told to measure, by NCCL's variables, the caller, tunefit sweep and our tuner's decisions.
type request struct {
	sample Sample // of no size: the communicator, and the configuration of the whole run, if there is one
	log    *tuningLog
	said   map[failed]bool // what unmet has recorded
}

func (u *testRun) request(coll nccl.Coll, comm nccl.Comm, r *Result) *request {
	s := Sample{
		Call: nccl.Call{Coll: coll}, Comm: comm, Config: r.asked(u.variables, operation(coll.String())),
		Selection: SelectionForced, Source: r.File, Simulated: u.metadata.gpus[FakePerf],
	}
	return &request{s, &u.log, map[failed]bool{}}
}

// at is the configuration that was asked for at a size; ok is false where that is not known.
func (a *request) at(size uint64, pass int) (l nccl.Config, ok bool) {
	l = a.sample.Config
	key := a.log.of(operation(a.sample.Coll.String()), size, pass)
	if l, asked := a.log.asked[key]; asked {
		return l, true
	}
	d, decided := a.log.decided[key]
	if decided && d != noLabel && (d.Cell != l.Cell || d.Channels > 0) {
		l = d
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
func (a *request) unmet(r *Result, size uint64, pass int) {
	l, ok := a.at(size, pass)
	s := a.sample
	s.Bytes, s.Config = size, l
	at := failed{l, size}
	if !ok || a.said[at] || s.Nodes < 1 || s.Ranks < 2 || size == 0 {
		return
	}
	a.said[at] = true
	r.Failed = append(r.Failed, s)
}

// unreached records the sizes that a run had not measured when it broke off.
func (u *testRun) unreached(r *Result, a *request) {
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
			a.unmet(r, size, pass)
		}
	}
}

// unknown returns the settings of a run that are mentioned only. joined: the log that NCCL wrote into a file of its own
// was read.
func (u *testRun) unknown(r *Result) (of []mention) {
	if r.mark.is || u.complete {
		return nil
	}
	said := r.opts.Default || r.opts.Config != nil
	forced := u.variables.get("NCCL_ALGO")+u.variables.get("NCCL_PROTO") != ""
	for _, m := range u.mentions.of {
		_, known := u.variables[m.name]
		usual := m.value == "0" && (strings.HasSuffix(m.name, "_DISABLE") || strings.Contains(m.name, "_MIN_")) ||
			m.name == "NCCL_TUNER_PLUGIN" && strings.EqualFold(m.value, "none")
		apart := m.name == "NCCL_DEBUG_FILE" && u.joined != ""
		told := m.name == "" && forced
		if !known && !usual && !apart && !told && !(said && m.chose()) {
			of = append(of, m)
		}
	}
	if m := wordInName(r.File); m != nil && !said && !forced {
		of = append(of, *m)
	}
	if _, told := u.variables["RCCL_DDA_ENABLE"]; u.log.direct && !told && u.variables.chosen() {
		of = append(of, mention{"RCCL_DDA_ENABLE", "", u.line, false})
	}
	return of
}

// chosen reports whether variables chose instead of NCCL.
func (v variables) chosen() bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(v)), chooses.MatchString)
}

// anyChose reports whether one of the settings may have chosen instead of NCCL.
func anyChose(unknown []mention) bool {
	return slices.ContainsFunc(unknown, func(m mention) bool { return m.chose() || m.name == "RCCL_DDA_ENABLE" })
}

// wordInName is what the name of a file hints at; nil: nothing.
func wordInName(file string) *mention {
	base := filepath.Base(file)
	if words := hintsIn(strings.TrimSuffix(base, filepath.Ext(base))); words != nil {
		return &mention{value: strings.Join(words, "+")}
	}
	return nil
}

// ask says which settings of a file nobody tells, and how the user can.
func (r *Result) ask() {
	if len(r.unknown) == 0 {
		return
	}
	var names []string
	chosen, apart, set := false, "", ""
	first := mostLines
	for _, text := range slices.Sorted(maps.Keys(r.unknown)) {
		m := r.unknown[text]
		switch {
		case m.name == "NCCL_DEBUG_FILE":
			apart = m.value
		case m.name == "RCCL_DDA_ENABLE" && m.value == "":
			r.note(m.line, "RCCL's direct access is ready (ncclDdaIpcCommInit): it runs calls whatever NCCL_ALGO and "+
				"a tuner say, so what ran is not known (measure with RCCL_DDA_ENABLE=0; if this run had it, give "+
				"--with RCCL_DDA_ENABLE=0)")
			continue
		case m.chose():
			chosen = true
		default:
			set = m.name
		}
		if m.line > 0 {
			first = min(first, m.line)
		}
		if len(names) < mostNames {
			names = append(names, wording.Quote(strings.TrimSuffix(text, unsure)))
		}
	}
	if first == mostLines {
		first = 0
	}
	text := "mentioned, and NCCL's log does not confirm it: " + strings.Join(names, ", ") + ". Say what ran: "
	var how []string
	if apart != "" {
		how = append(how, "import NCCL's log "+wording.Quote(apart)+" together with this file")
	}
	if chosen || apart != "" {
		how = append(how, "--default if NCCL chose, or --algo, --proto and --channels if something else did")
	}
	if set != "" {
		how = append(how, fmt.Sprintf("--with NAME=VALUE, as --with %s=1, or --with %s= if it was not set", set, set))
	}
	if names == nil {
		return
	}
	r.note(first, "%s%s", text, strings.Join(how, "; "))
}

const mostLines = 1 << 40

// setup is what is known at a run's end; nil: nothing.
func (u *testRun) setup(unknown []mention) *Setup {
	if !u.inherited {
		u.metadata.GPU, u.metadata.Hosts = joined(u.metadata.gpus, " + "), joined(u.devices.hosts, " ")
	}
	s := u.metadata.Setup
	if s.Tuner == "" {
		s.Tuner = loadedTuner(u.variables.get("NCCL_TUNER_PLUGIN"))
	}
	for name, into := range map[string]*string{"NCCL_MIN_NCHANNELS": &s.MinChannels, "NCCL_MIN_CTAS": &s.MinCTAs} {
		if n, err := strconv.Atoi(u.variables.get(name)); err == nil && n > 0 {
			*into = strconv.Itoa(n)
		}
	}
	u.settings.fill(u.mentions.args)
	s.Options, s.Variables = u.settings.String(), u.variables.changing(unknown)
	return s.clean()
}

// missedTuner reports that NCCL's log names our tuner as the one to load, and NCCL did not load it.
func (f *runMetadata) missedTuner(v variables) bool {
	return strings.Contains(v.get("NCCL_TUNER_PLUGIN"), "nccl-tuner-go") && !f.IsOurs()
}
