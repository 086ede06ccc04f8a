package bench

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// run is one run of a test program: what its header says, and its rows. A file
// may hold many. The rows become samples at its end, since some of what they
// need may stand below them.
type run struct {
	line    int
	program string // all_reduce_perf; empty: not said
	header  bool   // "# nThread" was seen
	threads int    // nThread x nGpus of one process
	settings
	devices devices
	listed  int  // ranks of the devices
	whole   bool // the list of devices was not cut
	headers int  // without a row between them
	footers int
	comm    nccl.Comm // as NCCL's log says
	columns columns
	footer  bool // it came to its end
	failed  bool // its last lines say that values were wrong

	forced bool     // NCCL's variables force a number of channels
	sizes  []uint64 // what it was to measure, from its header
	isCSV  bool     // the rows are those of a CSV file

	blankRedOp bool
	rows       []row
	log        tuningLog
	metadata   runMetadata
	joined     string // the process whose log of its own was read last
	variables         // that are known
	complete   bool   // all of them are, as nccl-tests' JSON tells
	mentions   mentions
	inherited  bool // the metadata and the devices are those of the run before it
}

// newRun is a run of a log that begins at a line.
func newRun(line int) *run { return &run{line: line, columns: plainColumns, log: newTuningLog()} }

// devices are the ranks and hosts of the list under "# Using devices". With
// NCCL_TESTS_SPLIT there are several groups, each a communicator of its own.
type devices struct {
	group string
	ranks map[string]string // processes, by rank
	hosts map[string]bool
	gpus  map[string]bool // host, device and full PCI address
	split bool
	// twice: a rank is listed twice, so processes ran apart. shared: a GPU is, so hosts share a name.
	twice, shared bool
}

func (d *devices) add(group, rank, host, process, gpu string) {
	if d.ranks == nil {
		d.group, d.ranks, d.hosts, d.gpus = group, map[string]string{}, map[string]bool{}, map[string]bool{}
	}
	if group != d.group {
		d.split = true
		return
	}
	before, listed := d.ranks[rank]
	d.twice = d.twice || listed && before != process
	d.ranks[rank] = process
	if fullPCI.MatchString(gpu) {
		d.shared = d.shared || d.gpus[host+gpu]
		d.gpus[host+gpu] = true
	}
	d.hosts[quoted([]byte(host))] = true
}

// count is the number of ranks, where each process has perProcess of them. The JSON lists only the first rank of each
// process (writeDeviceReport in src/util.cu, 2.17.5 to 2.19.6).
// Of a list that was cut, the highest number tells. whole: it was not.
func (d *devices) count(perProcess int) (ranks int, whole bool) {
	highest, each := -1, max(1, perProcess)
	for rank := range d.ranks {
		n, err := strconv.Atoi(rank)
		if err != nil || n > 1<<20 {
			return len(d.ranks), true
		}
		highest = max(highest, n)
		if n%each != 0 {
			each = 1
		}
	}
	listed := len(d.ranks) * each
	return max(listed, highest+1), listed > highest
}

// fullPCI is an address with its domain.
var fullPCI = regexp.MustCompile(`^[0-9]+ [0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}`)

// finish turns the rows of a run into samples.
func (u *run) finish(r *Result) {
	u.variables = u.variables.with(r.opts.With)
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
	unsure := !u.isCSV && chose(unknown)
	untold := !u.isCSV && !r.mark.is && !u.complete && unknown == nil
	r.starts++
	for i := range u.rows {
		row := &u.rows[i]
		row.Start = r.starts
		if u.mentions.cpuTime {
			row.reason = rejectCPUTime
		}
		if reason := cmp.Or(row.reason, unusable); reason != "" {
			r.reject(row.line, 1, reason)
			if unusable == "" {
				asked.unmet(r, row.Bytes)
			}
			continue
		}
		s := &row.Sample
		s.Coll = coll
		s.Nodes, s.Ranks = cmp.Or(s.Nodes, comm.Nodes), cmp.Or(s.Ranks, comm.Ranks)
		from := u.label(r, row, op, scale, claims, unsure)
		if from == originNone && s.Selection == SelectionDefault && untold {
			r.Assumed++
		}
		if !asked.areMet(s) || s.unusable() != "" {
			asked.unmet(r, s.Bytes)
		}
		s.Setup, s.Simulated = cmp.Or(s.Setup, setup), s.Simulated || u.metadata.gpus[FakePerf]
		if r.mark.verify {
			s.Verify, s.Source = true, verifyWord+":"+s.Source
		}
		r.add(row.line, *s, from)
	}
	if u.log.symmetric {
		r.note(u.line, "symmetric kernels ran: those rows have no algorithm")
	}
}

// countPasses finds the cycles of nccl-tests (-N) and rccl-tests (-s), which print all rows again under one header:
// sizes grow within a pass. Types, reductions and roots each have passes of their own.
func (u *run) countPasses() {
	type table struct {
		dtype, redop string
		root         int
		inPlace      bool
	}
	type pass struct {
		number int
		last   uint64 // bytes of its last row
	}
	tables := map[table]pass{}
	for i := range u.rows {
		r := &u.rows[i]
		if r.Bytes == 0 { // what was rounded down to nothing tells no two sizes apart
			continue
		}
		of := table{r.DType, r.RedOp, r.root, r.InPlace}
		p := tables[of]
		again := r.Bytes == p.last && len(u.sizes) < 2 // else two sizes may have been rounded to the same one
		if p.number == 0 || r.Bytes < p.last || again {
			p.number++
		}
		p.last = r.Bytes
		tables[of], r.Pass = p, p.number
	}
}

// fail records that a run did not measure the configuration that it asked for. If NCCL refused that, the record has no
// size. If the run broke off, there is a record for each size that was still to come.
func (u *run) fail(r *Result, asked *request, refused bool) {
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

// claims are what the variables of a run and the caller say.
func (r *Result) claims(v variables, op operation) []claim {
	claims := []claim{v.claim(string(op))}
	if c := r.opts.Config; c != nil {
		said := *c
		said.Cell = alone(said.Cell)
		claims = append(claims, claim{Config: said, from: originUser, forcesCell: true, forcesChannels: c.Channels > 0})
	}
	return claims
}

// asked is the configuration that a run was told to use, as far as it is one.
func (r *Result) asked(v variables, op operation) nccl.Config {
	l, _ := merge(append(r.claims(v, op), claim{Config: r.mark.asked, from: originNone}))
	return l.Config
}

// ran is what NCCL's log and our tuner's tell of a size. Where NCCL ran what our tuner asked for, the channels are
// those asked for: NCCL uses fewer at small sizes, and a policy cannot change that. Their number is NCCL's own where
// our tuner left it to NCCL, or asked for more than NCCL chose in a release that only lets a tuner lower them.
func (u *run) ran(op operation, size, scale uint64) (c nccl.Config, own, agreed, found bool) {
	asked, decided := u.log.decided[logKey{op, size}]
	c, agreed, found = u.log.ran(op, size, scale)
	if !decided {
		return c, false, agreed, found
	}
	own = asked != noLabel && asked.Channels == 0 && !u.forced
	switch release, _ := nccl.ParseVersion(u.metadata.NCCL); {
	case !found:
		c = asked
	case !agreed || c.Cell != asked.Cell || asked.Channels == 0:
	case release.Has(nccl.ChannelsOnlyLower) && 0 < c.Channels && c.Channels < asked.Channels:
		own = true
	default:
		c = asked
	}
	return c, own, agreed, true
}

// label finds what one row ran with. It merges what is known of the row with the claims of its run. After a hint
// nobody knows who chose, unless they tell.
func (u *run) label(r *Result, row *row, op operation, scale uint64, claims []claim, unsure bool) Origin {
	logged, ownChannels, agreed, found := u.ran(op, row.Bytes, scale)
	if found && !agreed {
		r.note(row.line, "NCCL's log shows several choices for %s of %d bytes: the row has no label", op, row.Bytes)
		logged = noLabel
	}
	claims = slices.Clone(claims)
	if ownChannels {
		for i := range claims {
			claims[i].Channels = 0
		}
	}
	switch {
	case row.Config == noLabel:
	case u.isCSV:
		claims = append(claims, claim{row.Config, originFields, row.Selection >= SelectionForced,
			row.Selection == SelectionForced})
	default:
		claims = append(claims, claim{Config: row.Config, from: originMeasured})
	}
	if found && logged != noLabel {
		claims = append(claims, claim{Config: logged, from: originMeasured})
	}
	l, clash := merge(claims)
	by := SelectionDefault
	switch {
	case unsure && l.from < originUser && u.log.direct:
		by, l.Config, l.from, clash = SelectionUnknown, noLabel, originNone, ""
	case l.forcesCell && l.Channels > 0 && (ownChannels || !l.forcesChannels):
		by = SelectionOwnChannels
	case l.forcesCell:
		by = SelectionForced
	case unsure:
		by = SelectionUnknown
	}
	if found && logged == noLabel && l.from != originUser { // what was asked for is known not to be what ran
		l.Config, l.from, clash = noLabel, originNone, ""
	}
	if clash != "" {
		r.note(row.line, "%s", clash)
	}
	row.Config = l.Config
	if !u.isCSV || l.from != originFields && l.from != originNone { // else the row says itself who chose
		row.Selection = by
	}
	return l.from
}

// checkFailed rejects a whole run whose last lines report wrong values that no
// row shows, as before nccl-tests 2.13.
func (u *run) checkFailed() {
	if !u.failed || slices.ContainsFunc(u.rows, func(r row) bool { return r.reason == rejectFailed }) {
		return
	}
	for i := range u.rows {
		u.rows[i].reason = cmp.Or(u.rows[i].reason, rejectFailedRun)
	}
}

// operation finds what the run measured, in the order of trust: the header, the
// command, NCCL's log, what the caller says, the rows.
func (u *run) operation(r *Result) operation {
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
func (u *run) tells(op, other operation) bool {
	c, known := collByName[string(op)]
	d, alsoKnown := collByName[string(other)]
	return known && alsoKnown && (c >= 0 || d >= 0)
}

func programOperation(program string) operation {
	program, _, _ = strings.Cut(program, "_perf")
	return operation(fold(program))
}

// communicator finds the nodes and ranks, in the order of trust: NCCL's log, the caller, the list of devices,
// threads x GPUs, the rows.
func (u *run) communicator(r *Result, op operation) (c nccl.Comm) {
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
func (u *run) apart(op operation, comm nccl.Comm) string {
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
func (u *run) loggedComm() string {
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
func (u *run) doubtNodes(r *Result) {
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

// TrimUnit is the unit, in bytes, that nccl-tests rounds sizes down to. It is an element, or 16 bytes for each rank
// where each rank has a part of the data (getCollByteCount in src/all_gather.cu and src/reduce_scatter.cu, 2.0 to
// 2.18).
func TrimUnit(coll nccl.Coll, ranks int) uint64 {
	if coll == nccl.CollAllGather || coll == nccl.CollReduceScatter {
		return 16 * uint64(ranks)
	}
	return 4
}

// request is what a run was told to measure, by NCCL's variables, the caller, tunefit sweep and our tuner's decisions.
type request struct {
	sample  Sample // of no size: the communicator, and the configuration of the whole run, if there is one
	decided map[logKey]nccl.Config
	said    map[uint64]bool // sizes that unmet has recorded
}

func (u *run) request(coll nccl.Coll, comm nccl.Comm, r *Result) *request {
	s := Sample{
		Call: nccl.Call{Coll: coll}, Comm: comm, Config: r.asked(u.variables, operation(coll.String())),
		Selection: SelectionForced, Source: r.File, Simulated: u.metadata.gpus[FakePerf],
	}
	return &request{s, u.log.decided, map[uint64]bool{}}
}

// at is the configuration that was asked for at a size; ok is false where that is not known.
func (a *request) at(size uint64) (l nccl.Config, ok bool) {
	l = a.sample.Config
	d, decided := a.decided[logKey{operation(a.sample.Coll.String()), size}]
	if decided && d != noLabel && (d.Cell != l.Cell || d.Channels > 0) {
		l = d
	}
	return l, l.Known()
}

// areMet reports whether a sample ran with the configuration that was asked for.
func (a *request) areMet(s *Sample) bool {
	l, ok := a.at(s.Bytes)
	counted := l.Channels == 0 || s.Channels == l.Channels && s.Selection != SelectionOwnChannels
	return !ok || counted && s.Cell == l.Cell
}

// unmet records, once, that the configuration that was asked for did not run at a size.
func (a *request) unmet(r *Result, size uint64) {
	l, ok := a.at(size)
	s := a.sample
	s.Bytes, s.Config = size, l
	if !ok || a.said[size] || s.Nodes < 1 || s.Ranks < 2 || size == 0 {
		return
	}
	a.said[size] = true
	r.Failed = append(r.Failed, s)
}

// unreached records the sizes that a run had not measured when it broke off.
func (u *run) unreached(r *Result, a *request) {
	measured := map[uint64]bool{}
	for i := range u.rows {
		measured[u.rows[i].Bytes] = true
	}
	unit := TrimUnit(a.sample.Coll, a.sample.Ranks)
	for _, size := range u.sizes {
		if size -= size % unit; !measured[size] {
			a.unmet(r, size)
		}
	}
}

// stepsOf returns the sizes from the first to the last. The text is the step, as "2(factor)" or "1048576(bytes)".
func stepsOf(first, last uint64, text string) (sizes []uint64) {
	const most = 512 // a run that steps through more is not one that tunefit asks for
	number, kind, _ := strings.Cut(text, "(")
	step := uint64(atoi([]byte(number)))
	for size := first; size <= last && len(sizes) < most; {
		sizes = append(sizes, size)
		switch {
		case kind == "factor)" && step > 1 && size > 0 && size <= math.MaxUint64/step:
			size *= step
		case kind == "bytes)" && step > 0 && size <= math.MaxUint64-step:
			size += step
		default:
			return sizes
		}
	}
	return sizes
}
