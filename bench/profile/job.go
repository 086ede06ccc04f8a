package profile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

// Job collects what the sources of one job tell. Feed it files, then take its Profile.
type Job struct {
	records // by recorders and inspectors
	calls   map[callKey]*call
	series  map[seriesKey]*series

	log     jobLog
	decided map[CallKind]record.Decision // no cells
	unnamed int                          // decisions of communicators whose shape the log does not tell
	others  map[string]int
	cut     []string

	unlisted int // calls that a recorder counted without their shape
}

// records count the calls that ranks made, by kind.
type records struct {
	comms   map[string]int32
	entries map[CallKind]int32
	found   []found
	ranks   map[place]map[int]bool
}

func newRecords() records {
	return records{comms: map[string]int32{}, entries: map[CallKind]int32{}, ranks: map[place]map[int]bool{}}
}

// found is what the records tell of calls that are alike.
type found struct {
	CallKind
	records int // of all ranks

	// As a recorder has them.
	channels int
	by       string
	most     uint64 // calls with these channels and this decider

	ran map[nccl.Config]int // as NCCL's log says of some of the calls; NoCell: no tuner's choice
}

// callKey is one call of a communicator, on all its ranks.
type callKey struct {
	comm, entry int32
	sn          uint64
}

type call struct {
	timed int32 // ranks whose kernel's time is known
	least float32
}

// seriesKey is what sequence numbers count: the calls of one collective by one rank.
type seriesKey struct {
	comm int32
	coll nccl.Coll
	rank int
}

type series struct {
	nccl.Comm
	first, last uint64
	records     uint64
	file        string
}

// place is a communicator in a process.
type place struct {
	comm int32
	process
}

type process struct {
	host string
	pid  uint64
}

// NewJob returns an empty one.
func NewJob() *Job {
	return &Job{
		records: newRecords(), calls: map[callKey]*call{}, series: map[seriesKey]*series{},
		decided: map[CallKind]record.Decision{}, others: map[string]int{},
		log: jobLog{records: newRecords(), members: map[member]*joined{}, processes: map[process]*memberships{},
			last: map[processCall]nccl.Comm{}, Overrides: Overrides{offered: map[nccl.Coll]map[nccl.Cell]bool{}}},
	}
}

// recorded is the number of ranks that were recorded. A process counts as many as its communicator with most ranks
// there.
func (r *records) recorded() (n int) {
	most := map[process]int{}
	for at, ranks := range r.ranks {
		most[at.process] = max(most[at.process], len(ranks))
	}
	for _, ranks := range most {
		n += ranks
	}
	return n
}

// groups counts the groups of processes that communicators join. Nearly every job has a communicator of all
// ranks, and so one group.
func (r *records) groups() (n int) {
	beside, seen := map[any][]any{}, map[any]bool{} // of processes and communicators
	for at := range r.ranks {
		beside[at.comm] = append(beside[at.comm], at.process)
		beside[at.process] = append(beside[at.process], at.comm)
	}
	var group []any
	for x := range beside {
		if seen[x] {
			continue
		}
		for n, group = n+1, append(group, x); len(group) > 0; {
			x, group = group[len(group)-1], group[:len(group)-1]
			if !seen[x] {
				seen[x], group = true, append(group, beside[x]...)
			}
		}
	}
	return n
}

// Profile is what is known by now. steps is how many steps were recorded; 0: not known.
func (j *Job) Profile(steps int) (*Profile, error) {
	p := &Profile{Overrides: j.log.Overrides}
	from := &j.records
	ranks := from.recorded()
	if len(j.found) == 0 { // the recorder and the inspector know more than NCCL's log
		from, ranks = &j.log.records, j.log.ranks()
	}
	add := func(e Entry, calls float64) {
		e.Calls = calls / float64(ranks)
		if steps > 0 {
			e.StepCalls = e.Calls / float64(steps)
		}
		p.Entries = append(p.Entries, e)
	}
	times, untimed := j.times()
	for i, f := range from.found {
		e := Entry{CallKind: f.CallKind, Channels: f.channels, DecidedBy: f.by}
		if all := times[int32(i)]; len(all) > 0 {
			e.Micros = stats.Median(all)
		}
		if f.ran == nil {
			add(e, float64(f.records))
		} else {
			f.split(e, add)
		}
	}
	unknown, missed, err := j.missed()
	if err != nil {
		return nil, err
	}
	for kind, n := range unknown {
		add(Entry{CallKind: kind}, float64(n))
	}
	if from == &j.log.records {
		j.log.note(p)
	}
	j.addDecisions(p)
	p.note(missed, "%d of %d calls were not recorded: their sequence numbers are missing, and their sizes are not "+
		"known (dropped, or smaller than NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES)", missed, missed+j.numRecords())
	p.note(j.unlisted, "%d calls are left out: a communicator had more call signatures than its recorder keeps",
		j.unlisted)
	groups := from.groups()
	p.note(groups-1, "these are %d groups of processes that have no communicator in common: are they of one job? "+
		"(needed: the files of one)", groups)
	p.note(untimed, "%d of %d calls have no time: not all ranks of the communicator recorded them, with the GPU's "+
		"time of the kernel (needed: the files of all ranks)", untimed, len(j.calls))
	for _, name := range slices.Sorted(maps.Keys(j.others)) {
		p.note(1, "%d records of %s are left out: NCCL asks no tuner about it", j.others[name], name)
	}
	p.note(j.unnamed, "%d decisions are left out: the log does not tell the nodes and ranks of their communicator",
		j.unnamed)
	p.Notes = append(p.Notes, j.cut...)
	p.sort()
	return p, nil
}

// note notes something of which there are n, if there are any.
func (p *Profile) note(n int, format string, args ...any) {
	if n > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
	}
}

func (r *records) numRecords() (n int) {
	for _, f := range r.found {
		n += f.records
	}
	return n
}

// comm numbers a communicator, and notes that one of its ranks was recorded in a process.
func (r *records) comm(id string, in process, rank int) int32 {
	comm, ok := r.comms[id]
	if !ok {
		comm = int32(len(r.comms))
		r.comms[id] = comm
	}
	at := place{comm, in}
	if r.ranks[at] == nil {
		r.ranks[at] = map[int]bool{}
	}
	r.ranks[at][rank] = true
	return comm
}

// entry returns the place in found of calls that are alike.
func (r *records) entry(c CallKind) int32 {
	entry, ok := r.entries[c]
	if !ok {
		entry = int32(len(r.found))
		r.entries[c], r.found = entry, append(r.found, found{CallKind: c})
	}
	return entry
}

// time takes how long a call took one rank, by its GPU's clock. 0: that is not known.
func (j *Job) time(key callKey, micros float32) {
	c := j.calls[key]
	if c == nil {
		c = &call{}
		j.calls[key] = c
	}
	if micros > 0 && (c.timed == 0 || micros < c.least) {
		c.least = micros
	}
	if micros > 0 {
		c.timed++
	}
}

// times are the least that a rank took for each call of an entry. The kernel of a rank that comes early waits for the
// others inside, so only the least over all ranks is the collective's own time. untimed counts calls that not all ranks
// recorded, or not all with a time.
func (j *Job) times() (times map[int32][]float64, untimed int) {
	times = map[int32][]float64{}
	for key, c := range j.calls {
		if c.timed == int32(j.found[key.entry].Ranks) {
			times[key.entry] = append(times[key.entry], float64(c.least))
		} else {
			untimed++
		}
	}
	return times, untimed
}

// missed counts the calls between the first and the last recorded ones of a rank that were not recorded.
func (j *Job) missed() (unknown map[CallKind]int, sum int, err error) {
	unknown = map[CallKind]int{}
	order := func(a, b seriesKey) int { // so that the error names the same one each time
		return cmp.Or(cmp.Compare(a.comm, b.comm), cmp.Compare(a.coll, b.coll), cmp.Compare(a.rank, b.rank))
	}
	for _, key := range slices.SortedFunc(maps.Keys(j.series), order) {
		s := j.series[key]
		span := s.last - s.first + 1
		if s.records > span {
			return nil, 0,
				fmt.Errorf("%s: %d records of %s by rank %d of one communicator within %d sequence numbers (allowed: "+
					"one for each; is the same output given twice?)", s.file, s.records, key.coll, key.rank, span)
		}
		if gap := int(min(span-s.records, 1<<40)); gap > 0 {
			unknown[CallKind{Call: nccl.Call{Coll: key.coll}, Comm: s.Comm, Cell: nccl.NoCell}] += gap
			sum += gap
		}
	}
	return unknown, sum, nil
}
