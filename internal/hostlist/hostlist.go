// Package hostlist reads the lists of hosts that Slurm writes.
package hostlist

import (
	"fmt"
	"strconv"
	"strings"
)

// most bounds the hosts that one name stands for.
const most = 1 << 16

// Expand lists the hosts of "node[1-3,08],login". A part that it cannot read is taken for a name.
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
		hosts = append(hosts, expand(text[:end])...)
		text = strings.TrimPrefix(text[end:], ",")
	}
	return hosts
}

func expand(text string) (hosts []string) {
	head, rest, ok := strings.Cut(text, "[")
	list, tail, closed := strings.Cut(rest, "]")
	if !ok || !closed {
		return []string{text}
	}
	tails := expand(tail)
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || from > to || to-from >= most || (to-from+1)*len(tails) > most-len(hosts) {
			return []string{text}
		}
		for n := from; n <= to; n++ {
			for _, tail := range tails {
				hosts = append(hosts, fmt.Sprintf("%s%0*d%s", head, len(first), n, tail))
			}
		}
	}
	return hosts
}
