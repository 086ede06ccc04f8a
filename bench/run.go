package bench

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// testRun is one run of a test program: what its header says, and its rows. A file
// may hold many. The rows become samples at its end, since some of what they
// need may stand below them.
type testRun struct {
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
	untuned    *Setup // where passes were measured that our tuner left to NCCL
	joined     string // the process whose log of its own was read last
	variables         // that are known
	complete   bool   // all of them are, as nccl-tests' JSON tells
	mentions   mentions
	inherited  bool // the metadata and the devices are those of the run before it
}

// newRun is a run of a log that begins at a line.
func newRun(line int) *testRun {
	return &testRun{line: line, columns: plainColumns, log: newTuningLog()}
}

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

// checkFailed rejects a whole run whose last lines report wrong values that no
// row shows, as before nccl-tests 2.13.
func (u *testRun) checkFailed() {
	if !u.failed || slices.ContainsFunc(u.rows, func(r row) bool { return r.reason == rejectFailed }) {
		return
	}
	for i := range u.rows {
		u.rows[i].reason = cmp.Or(u.rows[i].reason, rejectFailedRun)
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
