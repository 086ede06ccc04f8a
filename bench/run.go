package bench

import (
	"regexp"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// testRun is one run of a test program, or the rows of a CSV file. A reader fills it and closes it when its table ends.
// Then resolve finds what it measured, since some of what rows need may stand below them.
type testRun struct {
	file string
	opts Options // what the caller tells
	heading
	rows     []row
	ended    bool // it came to its end
	ends     int
	failed   bool // its last lines say that values were wrong
	isCSV    bool
	tells    bool // its columns tell who chose
	log      tuningLog
	failure  failure
	mentions mentions
	complete bool // all variables are known, as nccl-tests' JSON tells
	// inherited: it goes on under the heading of the run before it.
	inherited bool
}

// heading is what a run's header tells, and NCCL's log by then. It may be that of several runs.
type heading struct {
	line     int
	mark     sweepMark
	program  string // all_reduce_perf; empty: not said
	header   bool   // "# nThread" was seen
	headers  int    // without a row between them
	mixed    bool   // with the header of another process
	settings settings
	devices  deviceList
	comm     nccl.Comm // as NCCL's log says
	layout   layout
	sizes    []uint64 // what it was to measure
	known    Setup
	joined   string // the process whose log of its own was read last
}

// newRun is a run of a log that begins at a line.
func newRun(file string, line int, m sweepMark) *testRun {
	return &testRun{file: file, heading: heading{line: line, mark: m, layout: plainLayout, settings: settings{}},
		log: newTuningLog()}
}

// goOn is a run below another one, under the same heading.
func (u *testRun) goOn(line int) *testRun {
	next := newRun(u.file, line, u.mark)
	next.heading, next.inherited = u.heading, true
	next.line, next.header, next.sizes = line, false, nil
	return next
}

// close ends a run. It changes no more from here on.
func (u *testRun) close(opts Options) {
	u.opts = opts
	u.settings = u.mark.setting.with(u.settings).with(opts.With) // NCCL's log has the last word on a sweep's setting
	if !u.inherited {
		u.devices.close(u.settings.perProcess())
	}
	if !u.isCSV {
		u.countPasses()
	}
}

// named reports whether each row says itself what it is of.
func (u *testRun) named() bool { return u.isCSV && len(u.rows) > 0 && u.rows[0].op != "" }

// deviceList is the ranks and hosts of the list under "# Using devices". With
// NCCL_TESTS_SPLIT there are several groups, each a communicator of its own.
type deviceList struct {
	group string
	ranks map[string]string // processes, by rank
	hosts map[string]bool
	gpus  map[string]bool // models
	at    map[string]bool // host, device and full PCI address
	split bool
	// twice: a rank is listed twice, so processes ran apart. shared: a GPU is, so hosts share a name.
	twice, shared bool
	// Of the whole list: its ranks, and whether it was not cut.
	listed int
	whole  bool
}

// fullPCI is an address with its domain.
var fullPCI = regexp.MustCompile(`^[0-9]+ [0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}`)

// add takes a device: its model, and its place as "0 0000:1b:00".
func (d *deviceList) add(group, rank, host, process, place, model string) {
	if d.ranks == nil {
		*d = deviceList{group: group, ranks: map[string]string{}, hosts: map[string]bool{}, gpus: map[string]bool{},
			at: map[string]bool{}}
	}
	if model = quoted([]byte(model)); model != "" {
		d.gpus[model] = true
	}
	if group != d.group {
		d.split = true
		return
	}
	before, listed := d.ranks[rank]
	d.twice = d.twice || listed && before != process
	d.ranks[rank] = process
	if fullPCI.MatchString(place) {
		d.shared = d.shared || d.at[host+place]
		d.at[host+place] = true
	}
	d.hosts[quoted([]byte(host))] = true
}

// close ends the list, where each process has perProcess ranks. The JSON lists only the first rank of each
// process (writeDeviceReport in src/util.cu, 2.17.5 to 2.19.6). Of a list that was cut, the highest number tells.
func (d *deviceList) close(perProcess int) {
	highest, each := -1, max(1, perProcess)
	for rank := range d.ranks {
		n := atoi(rank)
		highest = max(highest, n)
		if n%each != 0 {
			each = 1
		}
	}
	if highest > 1<<20 {
		highest = -1
	}
	listed := len(d.ranks) * each
	d.listed, d.whole = max(listed, highest+1), listed > highest
}

// countPasses finds the cycles of nccl-tests (-N) and rccl-tests (-s), which print all rows again under one header:
// sizes grow within a pass. Types, reductions and roots each have passes of their own.
func (u *testRun) countPasses() {
	type table struct {
		dtype, redop string
		root         int
		inPlace      bool
	}
	type pass struct {
		number int
		last   uint64 // bytes of its last row
		grew   bool   // its last row is larger than the one before it
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
		const least = 1 << 16                          // those above are not
		u.mixed = u.mixed || p.grew && r.Bytes == p.last && r.Bytes > least && len(u.sizes) > 1 &&
			u.sizes[1] >= 2*u.sizes[0]
		p.grew = p.number > 0 && r.Bytes > p.last
		if p.number == 0 || r.Bytes < p.last || again {
			p.number++
		}
		p.last = r.Bytes
		tables[of], r.Pass = p, p.number
	}
}
