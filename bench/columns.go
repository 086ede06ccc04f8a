package bench

import (
	"bytes"
	"slices"
)

// columns is what a header line says of the rows below it. The zero value is
// for rows without a header.
type columns struct {
	known   bool
	names   []string // before the first time
	group   int      // tokens of one half, out-of-place or in-place; 0: find out
	check   int      // place of error, res or #wrong in a half
	algBW   int
	busBW   int
	halves  int
	wrong   bool // the check counts wrong elements: #wrong, not error or res
	milli   bool // times are milliseconds: nccl-tests of 2017
	cpuTime bool // times are the CPU's: -C 1
	algo    bool // RCCL's algorithm, protocol and channels follow
	// inPlaceOnly: the only half is the in-place one (rccl-tests -O 0).
	inPlaceOnly bool
}

// headerColumns reads the line that names the columns, with or without its #.
func headerColumns(tokens [][]byte) (c columns, ok bool) {
	c.known = true
	at := -1 // of the current half's time
	same := true
	place := func(into *int, i int) {
		same = same && at >= 0 && (*into == 0 || *into == i-at)
		*into = i - at
	}
	for i, t := range tokens {
		switch name := string(t); name {
		case "time", "cputime":
			if at < 0 {
				for _, n := range tokens[:i] {
					if string(n) != "#" {
						c.names = append(c.names, string(n))
					}
				}
			}
			at = i
			c.halves++
			c.cpuTime = c.cpuTime || name == "cputime"
		case "algbw":
			place(&c.algBW, i)
		case "busbw":
			place(&c.busBW, i)
		case "error", "res", "#wrong":
			place(&c.check, i)
			c.group = max(c.group, c.check+1)
			c.milli = c.milli || name == "res"
			c.wrong = c.wrong || name == "#wrong"
		case "algo":
			c.algo = true
		default:
			if bytes.HasPrefix(t, []byte("i_")) { // -I: statistics of the iterations
				c.group = max(c.group, i-at+1)
			}
		}
	}
	if !same || c.halves == 0 || c.halves > 2 || min(c.algBW, c.busBW, c.check) < 1 ||
		c.group <= max(c.algBW, c.busBW, c.check) {
		return columns{}, false
	}
	return c, slices.Contains(c.names, "size") || slices.Contains(c.names, "bytes")
}

// plainColumns is the layout without a header. A half has time, algbw, busbw, error or #wrong.
var plainColumns = columns{group: 4, algBW: 1, busBW: 2, check: 3, halves: 2}

// layout returns where the numbers of a row are.
func (c columns) layout() columns {
	if c.known {
		return c
	}
	return plainColumns
}
