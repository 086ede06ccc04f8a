//go:build cgo

package main

import "testing"

// The C side of a change by itself, every order of events that a job shows rarely.
func TestHandOver(t *testing.T) { handOver(t, built) }

func handOver(t *testing.T, p programs) {
	t.Helper()
	if out, err := command(p.handOver).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
