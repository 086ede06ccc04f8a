//go:build cgo

package main

import (
	"strings"
	"testing"
)

// After a change no shape that was known before asks Go again: all were asked for
// beforehand, and are found in the cache as NCCL asks for them.
func TestLivePrewarmed(t *testing.T) {
	long(t)
	t.Parallel()
	file, env := policyFile(t, 1)
	j := startJob(t, built, 2, args("ranks=2 rate=1000"), append(env, "NCCL_TUNER_LOG=decisions"))
	j.tell("go")
	// testhost/rank.c has 3 collectives of 16 sizes, with and without registered
	// buffers: none is missing after so many calls.
	const shapes, enough = "96 times", 4000
	waitCalls(0, enough, j.ranks...)
	write(t, file, policyText(2))
	j.decided(0, 2)
	waitCalls(0, j.ranks[0].count(0)+enough, j.ranks...)
	j.tell("stop")
	j.compare(0)
	j.end()
	for _, r := range j.ranks {
		var asked []string
		for _, line := range r.said {
			if _, count, ok := strings.Cut(line, "in all, asked for "); ok {
				count, _, _ = strings.Cut(count, ":")
				asked = append(asked, count)
			}
		}
		if len(asked) != 2 || asked[0] != shapes || asked[1] != shapes {
			t.Errorf("rank %d: the two versions were asked %q", r.id, asked)
		}
	}
}
