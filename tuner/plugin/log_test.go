//go:build cgo

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// What the plugin's log tells of a communicator's changes.

// proposal is one that a rank has made.
type proposal struct{ k, check, swap int }

var proposedLine = regexp.MustCompile(
	`change (\d+): proposed version .*, checkpoint at call (\d+), switch at call (\d+),`)

// comm is the id of a communicator.
func (j *job) comm(i int) uint64 { return uint64(j.seed)<<8 | uint64(i) }

// about begins the lines that are about a communicator.
func (j *job) about(comm int) string { return fmt.Sprintf("communicator %#x: ", j.comm(comm)) }

// proposed is the first proposal of the rank for a change later than k, if there is one.
func (r *rank) proposed(comm, k int) (p proposal, ok bool) {
	about := regexp.QuoteMeta(r.job.about(comm))
	line := regexp.MustCompile(about + proposedLine.String())
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, said := range r.said {
		if m := line.FindStringSubmatch(said); m != nil {
			p.k, _ = strconv.Atoi(m[1])
			p.check, _ = strconv.Atoi(m[2])
			p.swap, _ = strconv.Atoi(m[3])
			if p.k > k {
				return p, true
			}
		}
	}
	return proposal{}, false
}

// proposedAfter waits for a proposal for a change of a communicator later than k.
func (j *job) proposedAfter(comm, k int) (by *rank, p proposal) {
	j.Helper()
	eventually(j, fmt.Sprintf("a rank proposes a change of communicator %d after %d", comm, k), func() bool {
		i := slices.IndexFunc(j.ranks, func(r *rank) (ok bool) {
			p, ok = r.proposed(comm, k)
			return ok
		})
		if i >= 0 {
			by = j.ranks[i]
		}
		return i >= 0
	})
	return by, p
}

// proposals is how many changes of a communicator were proposed so far.
func (j *job) proposals(comm int) (k int) {
	for _, r := range j.ranks {
		for p, ok := r.proposed(comm, k); ok; p, ok = r.proposed(comm, k) {
			k = p.k
		}
	}
	return k
}

// said counts the lines with the text, of all ranks.
func (j *job) said(text string) (n int) {
	for _, r := range j.ranks {
		n += r.times(text)
	}
	return n
}

// decide reports whether the latest calls of a context on all ranks are decided by the
// version.
func (j *job) decide(context, version int) bool {
	return !slices.ContainsFunc(j.ranks, func(r *rank) bool { return r.latest(context) != version })
}
