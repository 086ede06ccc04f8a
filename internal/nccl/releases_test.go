package nccl

import (
	"math"
	"testing"
)

func TestParseReleases(t *testing.T) {
	for _, c := range []struct {
		text     string
		min, max Version
		is       string // as String writes it
	}{
		{"2.30.7", 23007, 23007, "2.30.7"},
		{"=2.30.7", 23007, 23007, "2.30.7"},
		{"2.30", 23000, 23099, "2.30"},
		{"2.28-2.30", 22800, 23099, "2.28-2.30"},
		{"2.28.3 - 2.30.2", 22803, 23002, "2.28.3-2.30.2"},
		{">=2.31", 23100, AnyRelease.Max, ">=2.31"},
		{">= 2.31.2", 23102, AnyRelease.Max, ">=2.31.2"},
		{">2.30", 23100, AnyRelease.Max, ">=2.31"},
		{"<2.31", 0, 23099, "<=2.30"},
		{"<=2.30.7", 0, 23007, "<=2.30.7"},
	} {
		r, err := ParseReleases(c.text)
		if want := (Releases{c.min, c.max}); err != nil || r != want || r.String() != c.is {
			t.Errorf("%q: got %d to %d (%s), %v; want %d to %d (%s)", c.text, r.Min, r.Max, r, err, c.min, c.max, c.is)
		}
		if again, err := ParseReleases(r.String()); err != nil || again != r {
			t.Errorf("%q: written as %s, read again as %v, %v", c.text, r, again, err)
		}
	}
	for _, text := range []string{"", "2", "2.30.7.1", "2.x", "2.30-2.28", ">=2.28-2.30", "=>2.31", "2.31+", "v2.31", "-2.30", "2.30-"} {
		if r, err := ParseReleases(text); err == nil {
			t.Errorf("%q was read as %s", text, r)
		}
	}
}

func TestReleasesByABI(t *testing.T) {
	unknown := Constants{math.NaN(), math.NaN()}
	for _, c := range []struct {
		abi       int
		constants Constants
		want      string
		unchecked bool
	}{
		{2, unknown, "2.21.5-2.22.2", false},
		{4, unknown, "2.24.3-2.28.2", false},
		{5, Constants{73.4, 282}, "2.28.3-2.29.1", false},
		{5, Constants{34.5, 282}, "2.29.2-2.30.2", true},
		{5, Constants{40, 282}, "2.29.2-2.30.2", true},
		{5, unknown, "2.28.3-2.30.2", true},
		{6, Constants{40, 282}, "2.30.3-2.30", true},
		{6, Constants{}, "2.31-2.32.2", false},
		{6, Constants{40, 282.4}, "2.32.3-2.32.5", false},
		{6, Constants{40, 283}, "2.30.3-2.32.5", true},
		{6, Constants{50, 282}, "2.30.3-2.32.5", true},
		{7, Constants{}, ">=2.32.6", false},
		{7, Constants{40, 282.4}, ">=2.32.6", false},
		{9, Constants{}, "unknown", false},
	} {
		r := ReleasesByABI(c.abi, c.constants)
		if r.String() != c.want || r.MayUseUncheckedAllGather() != c.unchecked {
			t.Errorf("v%d, %v: %s, unchecked %v; want %s, %v", c.abi, c.constants, r, r.MayUseUncheckedAllGather(), c.want, c.unchecked)
		}
	}
}

func TestReleasesContain(t *testing.T) {
	of := func(text string) Releases {
		r, err := ParseReleases(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, c := range []struct {
		row      string
		nccl     Releases
		contains bool
		overlaps bool
	}{
		{">=2.31", of("2.31.2"), true, true},
		{">=2.31", of("2.31-2.32.5"), true, true},
		{">=2.31.2", of("2.31-2.32.5"), false, true},
		{"2.28", of("2.31-2.32.5"), false, false},
		{">=2.28", Releases{}, false, true},
	} {
		if r := of(c.row); r.Contains(c.nccl) != c.contains || r.Overlaps(c.nccl) != c.overlaps {
			t.Errorf("row for %s, NCCL %s: contains %v, overlaps %v", c.row, c.nccl, r.Contains(c.nccl), r.Overlaps(c.nccl))
		}
	}
	if !AnyRelease.Contains(Releases{}) {
		t.Error("a row for any release is not for an unknown one")
	}
}
