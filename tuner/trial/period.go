package trial

import (
	"math"
	"slices"
	"time"
)

// minRepeats is how often a step must have been seen.
const minRepeats = 3

// periodOf returns the number of calls in a step: the least number after which the calls repeat. calls holds
// a hash of each. It returns 0 if they do not repeat, or not often enough. The first half of the calls need
// not belong to steps.
func periodOf(calls []uint64) int {
	for _, of := range [][]uint64{calls, calls[len(calls)/2:]} {
		if p := len(of) - longestBorder(of); p > 0 && minRepeats*p <= len(of) {
			return p
		}
	}
	return 0
}

// Chunks of calls take about the same time if two ratios are small. alike bounds the ratio of the slow
// chunks' time to that of the fast ones, a tenth left out at each end. alikeWaits bounds the ratio of mean to
// median, because a few long waits may be most of the time.
const (
	alike      = 1.5
	alikeWaits = 1.25
)

// steady returns how many periods of calls make a step that takes about the same time each time. nanos says
// when each call was made. One period may be too short: if calls repeat with each layer, their times only
// show how fast the host launches. 0 means that no number of periods is steady. A few slow steps at the beginning also
// make several periods look steadier than one. patient asks for more of those, by which time the beginning no longer
// counts.
//
// took is the median time of a step, since the first ones may have waited for connections. noise is the standard
// deviation of the logarithms of the latest ones.
func steady(nanos []uint64, period int, patient bool) (periods int, took time.Duration, noise float64) {
	nanos = nanos[len(nanos)/2:]
	for m := 1; steadyChunks*m*period < len(nanos); m *= 2 {
		var chunks []float64
		mean := 0.
		for i := m * period; i < len(nanos); i += m * period {
			chunks = append(chunks, float64(nanos[i]-nanos[i-m*period]))
			mean += chunks[len(chunks)-1]
		}
		mean /= float64(len(chunks))
		last := slices.Sorted(slices.Values(chunks[max(0, len(chunks)-latestChunks):]))
		slices.Sort(chunks)
		median := chunks[len(chunks)/2]
		tenth := len(chunks) / 10
		if chunks[len(chunks)-1-tenth] > alike*chunks[tenth] || mean > alikeWaits*median {
			continue
		}
		if m > 1 && patient && len(chunks) < patientChunks {
			break
		}
		const normal = 1.349 // standard deviations between the quarters
		return m, time.Duration(median), math.Log(last[len(last)*3/4]/last[len(last)/4]) / normal
	}
	return 0, 0, 0
}

// steadyChunks is the least number of chunks that tell whether they are alike. patientChunks is that of several periods
// each, while there is time to wait for them.
const (
	steadyChunks  = 4
	patientChunks = 16
	latestChunks  = 20 // that tell the noise
)

// longestBorder returns the length of the longest proper prefix that is also a suffix
// (Knuth, Morris and Pratt).
func longestBorder(s []uint64) int {
	if len(s) == 0 {
		return 0
	}
	border := make([]int, len(s))
	for i := 1; i < len(s); i++ {
		b := border[i-1]
		for b > 0 && s[i] != s[b] {
			b = border[b-1]
		}
		if s[i] == s[b] {
			b++
		}
		border[i] = b
	}
	return border[len(s)-1]
}
