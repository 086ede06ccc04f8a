package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each claim stands in its page.
func TestClaimsAreSaid(t *testing.T) {
	for _, c := range claims {
		text, err := os.ReadFile(filepath.Join("../../..", c.page))
		if err != nil {
			t.Fatal(err)
		}
		if said := c.in(string(text)); said == "" {
			t.Errorf("%s says nothing of %q", c.page, c.what)
		} else {
			t.Logf("%s: %s", c.what, said)
		}
	}
}

// The figures come from the output of benchmarks, with and without go test's number of processors, and of the
// simulation.
func TestRead(t *testing.T) {
	f := figures{}
	f.read(strings.NewReader("goos: linux\nBenchmarkKnown/rows=10/shapes=64/this 8 13.5 ns/op 2.5 x-empty\n" +
		"BenchmarkKnown/rows=10/shapes=64/empty 8 5.5 ns/op 1 x-empty\n" +
		"BenchmarkLiveSwitch/1000_calls_per_s-2 \t 1\t 1.25 s-median\t 2 s-worst\n" +
		"    cost_test.go:138: 8 nodes of 8 ranks, 100 communicators of all ranks: 64 operations a second idle, 45619 for " +
		"7.4s in an edit: 69 listings\n"))
	for want, got := range map[string]string{
		"8 ns":                         own(f, 10),
		"13.5 ns (2.5x); empty 5.5 ns": known("Known/rows=10/shapes=64")(f),
		"1.25 s / not measured":        list(ns, "LiveSwitch/1000_calls_per_s s-median", "x y")(f),
		"64, 45619, 7 s":               simulation("8")(f),
		"15 us":                        ns(15_000),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
