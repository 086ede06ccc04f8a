package trial

import (
	"time"
)

// A job's communicators change sides together, and a step waits for all of them. When one ends its
// comparison, another that goes on alone finds less difference than there is. So a comparison also
// ends when another communicator of the process has taken turns and has stopped doing so.

// follower watches the others of the process during one comparison.
type follower map[*Peer]*schedule

// schedule are how often another communicator has changed from side to side since it was first seen.
type schedule struct {
	standing
	n       int
	at      time.Time // of the latest
	from    uint64    // its calls then
	longest uint64    // calls between two
}

// Another communicator has ended its comparison when all of this holds:
//   - It has taken minTurns turns: the first may be the edit that began the comparison.
//   - One version has stood there for more than so many blocks. While turns are taken, it is two at most.
//   - It has made twice as many calls by that version as in its longest turn: one with few calls
//     changes late, one without calls never.
const (
	stands   = 4
	minTurns = 2
)

// ended returns the side on which another communicator has ended its comparison of these two.
func (f follower) ended(now time.Time, block time.Duration, sides [2]Variant, all []standing) (on Side, ok bool) {
	for _, s := range all {
		o := f[s.peer]
		if o == nil {
			o = &schedule{standing: s, at: now, from: s.calls}
			f[s.peer] = o
		}
		before, was := sideOf(o.meaning, sides)
		side, is := sideOf(s.meaning, sides)
		if was && is && side != before {
			if o.n > 0 {
				o.longest = max(o.longest, s.calls-o.from)
			}
			o.n, o.at, o.from = o.n+1, now, s.calls
		}
		o.standing = s
		if is && o.n >= minTurns && now.Sub(o.at) > stands*block && s.calls-o.from > 2*o.longest {
			return side, true
		}
	}
	return 0, false
}

func sideOf(meaning string, sides [2]Variant) (Side, bool) {
	for side, v := range sides {
		if v.EffectDigest() == meaning {
			return Side(side), true
		}
	}
	return 0, false
}
