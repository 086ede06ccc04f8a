// Package hostlist reads the lists of hosts that Slurm writes.
package hostlist

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	most    = 1 << 16 // hosts that the brackets of a list stand for
	longest = 253     // bytes of a name that brackets stand for, as in DNS
)

// Expand lists the hosts of "node[1-3,08],login". A part that it cannot read is taken for a name, and so is one with
// which there would be too many hosts.
func Expand(text string) (hosts []string) {
	for text != "" {
		end, depth := 0, 0
		for end < len(text) && (text[end] != ',' || depth > 0) {
			switch text[end] {
			case '[':
				depth++
			case ']':
				depth--
			}
			end++
		}
		named, ok := expand(text[:end], most-len(hosts))
		if !ok {
			named = []string{text[:end]}
		}
		hosts = append(hosts, named...)
		text = strings.TrimPrefix(text[end:], ",")
	}
	return hosts
}

// numbered is a piece of a name, and the numbers that may follow it.
type numbered struct {
	head    string
	numbers []span
}

type span struct{ from, to, width int }

// expand lists the hosts of a name with brackets, if there is room for them. It counts them before it makes any.
func expand(text string, room int) (hosts []string, ok bool) {
	var pieces []numbered
	count, length := 1, 0
	head, rest, more := strings.Cut(text, "[")
	for ; more; head, rest, more = strings.Cut(text, "[") {
		list, tail, closed := strings.Cut(rest, "]")
		piece, here, widest := numbered{head: head}, 0, 0
		for part := range strings.SplitSeq(list, ",") {
			first, last, isRange := strings.Cut(part, "-")
			if !isRange {
				last = first
			}
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if err1 != nil || err2 != nil || from > to || to-from >= room-here {
				return nil, false
			}
			here += to - from + 1
			widest = max(widest, len(first), len(last))
			piece.numbers = append(piece.numbers, span{from, to, len(first)})
		}
		count, length = count*here, length+len(head)+widest
		if !closed || count > room || length > longest {
			return nil, false
		}
		pieces, text = append(pieces, piece), tail
	}
	if len(pieces) > 0 && length+len(head) > longest {
		return nil, false
	}
	var add func(name []byte, pieces []numbered)
	add = func(name []byte, pieces []numbered) {
		if len(pieces) == 0 {
			hosts = append(hosts, string(append(name, head...)))
			return
		}
		name = append(name, pieces[0].head...)
		for _, s := range pieces[0].numbers {
			for n := s.from; n <= s.to; n++ {
				add(fmt.Appendf(name, "%0*d", s.width, n), pieces[1:])
			}
		}
	}
	add(nil, pieces)
	return hosts, true
}
