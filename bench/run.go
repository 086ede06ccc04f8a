package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// run is one run of a test program: what its header says, and its rows. A file
// may hold many. The rows become samples at its end, since some of what they
// need may stand below them.
type run struct {
	line    int
	program string // all_reduce_perf; empty: not said
	header  bool   // "# nThread" was seen
	threads int    // nThread x nGpus of one process
	devices devices
	comm    [2]int // nRanks and nNodes as NCCL's log says
	columns columns
	footer  bool // it came to its end
	failed  bool // its last lines say that values were wrong

	bounded  bool     // NCCL's variables bound the number of channels
	sizes    []uint64 // that it was to measure, by its header
	isCSV    bool     // the rows are those of a CSV file
	outcomes map[evidence]merged

	blankRedOp bool
	rows       []row
	log        tuningLog
	facts      facts
	inherited  bool // the facts above are those of the run before it
}

// devices are the ranks and hosts of the list under "# Using devices". With
// NCCL_TESTS_SPLIT there are several groups, each a communicator of its own.
type devices struct {
	group string
	ranks map[string]bool
	hosts map[string]bool
	split bool
}

func (d *devices) add(group, rank, host string) {
	if d.ranks == nil {
		d.group, d.ranks, d.hosts = group, map[string]bool{}, map[string]bool{}
	}
	if group != d.group {
		d.split = true
		return
	}
	d.ranks[rank] = true
	d.hosts[host] = true
}

// count is how many ranks there are, of processes with so many. The JSON lists the first rank of each process
// only (writeDeviceReport in src/util.cu, 2.17.5 to 2.19.6).
func (d *devices) count(perProcess int) int {
	if perProcess < 2 {
		return len(d.ranks)
	}
	for rank := range d.ranks {
		if n, err := strconv.Atoi(rank); err != nil || n%perProcess != 0 {
			return len(d.ranks)
		}
	}
	return len(d.ranks) * perProcess
}

// finish turns the rows of a run into samples.
func (u *run) finish(r *Result, opts Options, env *environment, envFrom Origin) {
	name := labelsInName(r.File, opts.NamePattern)
	brokeOff := false
	if f := &u.facts.failure; f.found(len(u.rows)) && !u.footer {
		brokeOff = true
		f.config = env.config(envFrom, name)
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
	if refused := u.log.refusedAll() || u.facts.failure.config != "" && u.facts.failure.byNCCL(); refused || brokeOff {
		u.fail(r, opts, env, envFrom, name, refused)
	}
	if len(u.rows) == 0 {
		return
	}
	if u.devices.split {
		r.note(u.line, "the ranks form several communicators; counted are those of group %s", u.devices.group)
	}
	u.checkFailed()
	op := u.operation(r, opts, env, name)
	nodes, ranks := u.communicator(r, opts, op, name)
	coll, known := collByName[string(op)]
	if !known || coll < 0 {
		for i := range u.rows {
			reason := u.rows[i].reason
			switch {
			case reason != "":
			case !known:
				reason = rejectCollective
			default:
				reason = fmt.Sprintf(rejectNotAsked, op)
			}
			r.reject(u.rows[i].line, 1, reason)
		}
		return
	}
	if env.cpuTime {
		for i := range u.rows {
			u.rows[i].reason = rejectCPUTime
		}
	}
	claims := append(env.claims(envFrom, string(op)), name.claim())
	u.bounded = env.boundsChannels()
	setup := u.setup(env)
	if setup != nil && setup.Tuner != "" {
		if u.log.obeyed == 0 && !slices.ContainsFunc(claims, func(c claim) bool { return c.forces && c.Config != noLabel }) {
			r.note(u.line, "the tuner plugin %s was loaded: these times are not the library's default", setup.Tuner)
		}
		claims = append(claims, claim{Config: noLabel, forces: true, bounds: true})
	}
	unusable := ""
	switch {
	case u.facts.missedTuner(env):
		unusable = rejectNotLoaded
	case u.log.refusedAll():
		unusable = rejectNotOffered
	}
	scale := u.log.scaleOf(op, u.rows, ranks)
	asks := u.asks(coll, nodes, ranks, r.File, claims)
	for i := range u.rows {
		row := &u.rows[i]
		if reason := cmp.Or(row.reason, unusable); reason != "" {
			r.reject(row.line, 1, reason)
			if unusable == "" {
				asks.unmet(r, row.bytes)
			}
			continue
		}
		s := row.sample(coll)
		s.Nodes, s.Ranks = firstPositive(row.nodes, nodes), firstPositive(row.ranks, ranks)
		from := u.label(r, &s, row, op, scale, claims)
		if !asks.areMet(&s) || s.unusable() != "" {
			asks.unmet(r, row.bytes)
		}
		s.Setup, s.Simulated = setup, u.facts.gpus[FakePerf]
		if row.setup != nil {
			s.Setup = row.setup
		}
		if name.verify {
			s.Verify, s.Source = true, verifyWord+":"+s.Source
		}
		r.add(row.line, s, from)
	}
	if u.log.symmetric {
		r.note(u.line, "symmetric kernels ran: those rows have no algorithm")
	}
}

// fail records the configuration that a run was to measure and that NCCL does not have here; without
// channels, that it has with none. Of a run that broke off it records the sizes that were to come.
func (u *run) fail(r *Result, opts Options, env *environment, envFrom Origin, name named, refused bool) {
	op := u.operation(r, opts, env, name)
	coll, known := collByName[string(op)]
	nodes, ranks := u.communicator(r, opts, op, name)
	if !known || coll < 0 || nodes < 1 || ranks < 2 {
		return
	}
	asks := u.asks(coll, nodes, ranks, r.File, append(env.claims(envFrom, string(op)), name.claim()))
	s := asks.sample
	if u.log.refusedAll() {
		s.Channels = 0 // what is offered does not depend on them
	}
	if !refused {
		u.unreached(r, asks)
	} else if s.Algo != Unknown && s.Proto != Unknown {
		r.Failed = append(r.Failed, s)
	}
}

// label says what one row ran with.
func (u *run) label(r *Result, s *Sample, row *row, op operation, scale uint64, claims []claim) Origin {
	measured, agreed, found := u.log.find(op, row.bytes, scale)
	if found && !agreed {
		r.note(row.line, "NCCL's log shows several choices for %s of %d bytes: the row has no label", op, row.bytes)
		measured = noLabel
	}
	own := u.log.leavesChannels(op, row.bytes) && !u.bounded
	if ran, is := u.capped(op, row.bytes, scale); is {
		measured, own = ran, true
	}
	m := u.merged(evidence{row.measured, measured, found, row.selection, own}, claims)
	if m.clash != "" {
		r.note(row.line, "%s", m.clash)
	}
	s.Config, s.Selection = m.Config, m.selection
	return m.from
}

// evidence is what is known of one row alone.
type evidence struct {
	fields    nccl.Config // RCCL's columns, or a CSV file's fields
	log       nccl.Config
	logged    bool // the log knows the size; with noLabel: it names no algorithm
	selection Selection
	// ownChannels: the number of channels is NCCL's, which our tuner left it to or could not raise.
	ownChannels bool
}

type merged struct {
	nccl.Config
	from      Origin
	selection Selection
	clash     string
}

// merged weighs a row's evidence against the run's claims. Most rows of a run
// have equal evidence, so outcomes are kept.
func (u *run) merged(e evidence, claims []claim) merged {
	if m, ok := u.outcomes[e]; ok {
		return m
	}
	all := slices.Clone(claims)
	for i := range all {
		if e.ownChannels {
			all[i].Channels = 0
		}
	}
	switch {
	case e.fields == noLabel:
	case u.isCSV:
		all = append(all, claim{Config: e.fields, from: originFields, forces: e.selection >= SelectionForced, bounds: e.selection == SelectionForced})
	default:
		all = append(all, claim{Config: e.fields, from: originMeasured})
	}
	if e.logged && e.log != noLabel {
		all = append(all, claim{Config: e.log, from: originMeasured})
	}
	var m merged
	var forced bool
	m.Config, m.from, forced, m.clash = merge(all)
	m.selection = selection(forced)
	bounds := func(c claim) bool { return c.bounds }
	if forced && m.Channels > 0 && (e.ownChannels || !slices.ContainsFunc(all, bounds)) {
		m.selection = SelectionOwnChannels
	}
	if e.logged && e.log == noLabel { // what was asked for is known not to be what ran
		m.Config, m.from, m.clash = noLabel, originNone, ""
	}
	if u.isCSV && (m.from == originFields || m.from == originNone) {
		m.selection = e.selection
	}
	if u.outcomes == nil {
		u.outcomes = map[evidence]merged{}
	}
	u.outcomes[e] = m
	return m
}

func selection(forced bool) Selection {
	if forced {
		return SelectionForced
	}
	return SelectionDefault
}

// checkFailed rejects a whole run whose last lines report wrong values that no
// row shows, as before nccl-tests 2.13.
func (u *run) checkFailed() {
	if !u.failed {
		return
	}
	for i := range u.rows {
		if u.rows[i].reason == rejectFailed {
			return
		}
	}
	for i := range u.rows {
		if u.rows[i].reason == "" {
			u.rows[i].reason = rejectFailedRun
		}
	}
}

// operation finds what the run measured, in the order of trust: the header, the
// command, NCCL's log, what the caller says, the file's name, the rows.
func (u *run) operation(r *Result, opts Options, env *environment, name named) operation {
	guessed := guess(u.rows, u.blankRedOp)
	said := []operation{programOperation(u.program), programOperation(env.program), u.log.operation()}
	if opts.Coll != nil {
		said = append(said, operation(opts.Coll.String()))
	}
	said = append(said, operation(name.coll), guessed)
	for i, op := range said {
		if op == "" {
			continue
		}
		for _, other := range said[i+1:] {
			if other != "" && other != op && u.tells(op, other) {
				r.note(u.line, "the run is %s by its header or command, but %s by its name or rows: the first is used", op, other)
			}
		}
		return op
	}
	return ""
}

// tells reports whether other contradicts op: gather and scatter, alltoall and
// hypercube print alike.
func (u *run) tells(op, other operation) bool {
	c, known := collByName[string(op)]
	d, alsoKnown := collByName[string(other)]
	return known && alsoKnown && (c >= 0 || d >= 0)
}

func programOperation(program string) operation {
	program, _, _ = strings.Cut(program, "_perf")
	return operation(fold(program))
}

// communicator finds the nodes and ranks, in the order of trust: NCCL's log,
// the list of devices, the caller, the file's name, threads x GPUs, the rows.
func (u *run) communicator(r *Result, opts Options, op operation, name named) (nodes, ranks int) {
	byRows := 0
	if f, ok := busFactor(u.rows); ok {
		byRows = ranksOf(op, f)
	}
	if op == "allgather" || op == "reducescatter" {
		if n := parts(u.rows); n > 1 {
			byRows = n
		}
	}
	listed := u.devices.count(u.threads)
	ranks = firstPositive(u.comm[0], listed, opts.Ranks, name.ranks)
	nodes = firstPositive(u.comm[1], len(u.devices.hosts), opts.Nodes, name.nodes)
	if u.comm[0] > 0 && listed > 0 && u.comm[0] != listed {
		r.note(u.line, "%d ranks by NCCL's log, but %d devices are listed: the first is used", u.comm[0], listed)
	}
	if ranks == 0 && u.threads > 0 {
		ranks = u.threads
		if byRows > 0 && byRows != ranks { // one process of several
			ranks = byRows
		} else {
			nodes = firstPositive(nodes, 1)
		}
	}
	ranks = firstPositive(ranks, byRows)
	if byRows > 0 && byRows != ranks {
		r.note(u.line, "%d ranks by the header, but %d by the ratio of busbw and algbw: the first is used", ranks, byRows)
	}
	return nodes, ranks
}

func firstPositive(numbers ...int) int {
	for _, n := range numbers {
		if n > 0 {
			return n
		}
	}
	return 0
}
