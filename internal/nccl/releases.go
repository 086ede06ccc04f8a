package nccl

import (
	"fmt"
	"math"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Releases is a range of releases, both ends included: those that a row is for, or those that the NCCL of a
// communicator may be. The zero value stands for an NCCL of which nothing is known.
type Releases struct{ Min, Max Version }

// AnyRelease holds all releases.
var AnyRelease = Releases{Max: math.MaxInt32}

const releasesAllowed = "2.30.7, 2.30 for all of 2.30, 2.28-2.30, >=2.31, <2.31"

// ParseReleases reads a range: 2.30.7, 2.30 (all releases 2.30.x), 2.28-2.30, >=2.31, <=2.30, >2.30, <2.31.
func ParseReleases(text string) (r Releases, err error) {
	fail := func() (Releases, error) {
		return Releases{}, fmt.Errorf("%s is no range of releases of NCCL (allowed: %s)", wording.Quote(text),
			releasesAllowed)
	}
	operator := strings.TrimRight(text[:len(text)-len(strings.TrimLeft(text, "<>="))], " ")
	from, to, isSpan := strings.Cut(strings.TrimSpace(text[len(operator):]), "-")
	first, ok := releasesNamed(strings.TrimSpace(from))
	if !ok || isSpan && operator != "" {
		return fail()
	}
	if isSpan {
		last, ok := releasesNamed(strings.TrimSpace(to))
		if !ok {
			return fail()
		}
		if last.Max < first.Min {
			return Releases{}, fmt.Errorf("the range of releases is reversed (found %s; the lower end comes first)",
				wording.Quote(text))
		}
		return Releases{first.Min, last.Max}, nil
	}
	switch operator {
	case "", "=", "==":
		return first, nil
	case ">=":
		return Releases{first.Min, AnyRelease.Max}, nil
	case ">":
		return Releases{first.Max + 1, AnyRelease.Max}, nil
	case "<=":
		return Releases{0, first.Max}, nil
	case "<":
		return Releases{0, first.Min - 1}, nil
	}
	return fail()
}

// releasesNamed reads 2.30.7 or 2.30, which stands for every 2.30.x.
func releasesNamed(text string) (Releases, bool) {
	n, parts, ok := versionNumber(text)
	if !ok {
		return Releases{}, false
	}
	if parts == 2 {
		return Releases{n * 100, n*100 + 99}, true
	}
	return Only(n), true
}

// Only is one release.
func Only(v Version) Releases { return Releases{v, v} }

// MinorOf holds all releases of the minor version of v: 2.30.x for 2.30.7.
func MinorOf(v Version) Releases { return Releases{v / 100 * 100, v/100*100 + 99} }

// String writes the range as ParseReleases reads it; "any" for all releases, "unknown" for the zero value.
func (r Releases) String() string {
	least := func(v Version) string { return strings.TrimSuffix(v.String(), ".0") }
	most := func(v Version) string { return strings.TrimSuffix(v.String(), ".99") }
	switch {
	case r == Releases{}:
		return "unknown"
	case r == AnyRelease:
		return "any"
	case r.Min == r.Max:
		return r.Min.String()
	case r == MinorOf(r.Min):
		return least(r.Min)
	case r.Max == AnyRelease.Max:
		return ">=" + least(r.Min)
	case r.Min == 0:
		return "<=" + most(r.Max)
	}
	return least(r.Min) + "-" + most(r.Max)
}

// Contains reports whether all releases of another range are in this one. No range but AnyRelease contains an
// NCCL of which nothing is known.
func (r Releases) Contains(o Releases) bool {
	o = o.orAny()
	return r.Min <= o.Min && o.Max <= r.Max
}

// Overlaps reports whether some release is in both ranges.
func (r Releases) Overlaps(o Releases) bool {
	r, o = r.orAny(), o.orAny()
	return r.Min <= o.Max && o.Min <= r.Max
}

func (r Releases) orAny() Releases {
	if r == (Releases{}) {
		return AnyRelease
	}
	return r
}

// Exact returns the release if the range is a single one; 0 if not.
func (r Releases) Exact() Version {
	if r.Min == r.Max {
		return r.Min
	}
	return 0
}

// MayUseUncheckedAllGather reports whether an NCCL of these releases may use a tuner's channel count for AllGather
// without a check. It is false for the zero value, of which nobody asks.
func (r Releases) MayUseUncheckedAllGather() bool {
	return r != Releases{} && r.Overlaps(Releases{Version(UncheckedAllGathers), Version(CheckedAllGathers) - 1})
}

// Constants are two of those that NCCL passes to a tuner's init from ABIComms on. They tell releases apart
// (src/graph/tuning.cc of each release, since 2.31 src/tuning/cost_model.cc). Both are of Blackwell on one node, NaN if
// NCCL passes none, and 0 if it has not set them yet.
type Constants struct {
	RingLL128 float64 // perChMaxRingLL128Bws
	LL        float64 // llMaxBws
}

// ReleasesByABI returns the releases that ask a tuner by a version of the ABI, if the tuner has all versions.
func ReleasesByABI(abi int, c Constants) Releases {
	next := AnyRelease.Max + 1
	for _, t := range abis {
		if t.abi > abi {
			next = t.since
		} else if t.abi == abi {
			return Releases{t.since, next - 1}.and(releasesByConstants(abi, c))
		}
	}
	return Releases{}
}

func releasesByConstants(abi int, c Constants) Releases {
	switch {
	case abi < ABIComms:
	case c.RingLL128 == 2*36.7:
		return Releases{0, Version(UncheckedAllGathers) - 1}
	case (c.RingLL128 == 34.5 || c.RingLL128 == 40) && c.LL == 2*141:
		return Releases{Version(UncheckedAllGathers), Version(LateConstants) - 1}
	case c.RingLL128 == 40 && c.LL == 2*141.2:
		return Releases{Version(EarlyConstants), AnyRelease.Max}
	case c.RingLL128 == 0:
		return Releases{Version(LateConstants), Version(EarlyConstants) - 1}
	}
	return AnyRelease
}

// and returns what is in both ranges, or r if nothing is.
func (r Releases) and(o Releases) Releases {
	if !r.Overlaps(o) {
		return r
	}
	return Releases{max(r.Min, o.Min), min(r.Max, o.Max)}
}
