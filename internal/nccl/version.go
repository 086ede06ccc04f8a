package nccl

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Version is one of NCCL's releases, numbered as ncclGetVersion does since 2.9: 23007 is 2.30.7. The zero value is
// Reference. It is compared with a Change, the first release that has it; values that changed from release to release,
// such as bandwidths, stand where they are used, with the Change that brought them.
type Version int

const (
	// Reference is the release that the rest of this project's facts describe.
	Reference Version = 23007
	// Oldest is the first release with the tuner ABI v2.
	Oldest Version = 22105
	// Newest is the newest release whose rules are known and were compared with what it chooses.
	Newest Version = 23102
	// NewestRead is a later release of which the estimates were read (src/tuning). Else the rules of Newest stand for
	// it.
	NewestRead Version = 23203
)

// KnownVersions holds the last release of each minor version whose rules are known.
var KnownVersions = []Version{Oldest, 22203, 22304, 22403, 22501, 22606, 22707, 22809, 22907, Reference, Newest,
	NewestRead}

// Has reports whether the release has a change.
func (v Version) Has(c Change) bool { return cmp.Or(v, Reference) >= Version(c) }

// UncheckedAllGather reports whether the release may use a tuner's channel count for AllGather without a check.
func (v Version) UncheckedAllGather() bool {
	return v.Has(UncheckedAllGathers) && !v.Has(CheckedAllGathers)
}

// Rules is the known release whose rules stand for v: v itself, or the newest known one that is not newer than v.
func (v Version) Rules() Version {
	if v >= NewestRead {
		return NewestRead
	}
	return min(cmp.Or(v, Reference), Newest)
}

func (v Version) String() string {
	n := int(cmp.Or(v, Reference))
	if n < 10000 { // up to 2.8
		return fmt.Sprintf("%d.%d.%d", n/1000, n/100%10, n%100)
	}
	return fmt.Sprintf("%d.%d.%d", n/10000, n/100%100, n%100)
}

// ParseVersion reads "2.30.7", or "2.30" for the last known release of that minor version.
func ParseVersion(text string) (Version, error) {
	v, ok := parseVersion(text)
	switch {
	case !ok:
		return 0, fmt.Errorf("%s is not a release of NCCL (allowed: 2.30.7, or 2.30 for the last of these; known: %s)",
			wording.Quote(text), knownVersions())
	case v < Oldest:
		return 0, fmt.Errorf("NCCL %s has no tuner that is known here (the oldest is %s)", v, Oldest)
	}
	return v, nil
}

func parseVersion(text string) (Version, bool) {
	n, parts, ok := versionNumber(text)
	if !ok || parts == 3 {
		return n, ok
	}
	// Without a patch level: the last one that is known.
	at, found := slices.BinarySearchFunc(KnownVersions, int(n), func(v Version, minor int) int {
		return cmp.Compare(int(v)/100, minor)
	})
	if found {
		return KnownVersions[at], true
	}
	return n * 100, n*100 < Oldest
}

// versionNumber reads two or three numbers with points between them: 2.30 as 230, 2.30.7 as 23007.
func versionNumber(text string) (n Version, parts int, ok bool) {
	for part := range strings.SplitSeq(text, ".") {
		i, err := strconv.ParseUint(part, 10, 8)
		if err != nil || i > 99 {
			return 0, 0, false
		}
		n = n*100 + Version(i)
		parts++
	}
	return n, parts, parts == 2 || parts == 3
}

func knownVersions() string {
	names := make([]string, len(KnownVersions))
	for i, v := range KnownVersions {
		names[i] = v.String()
	}
	return strings.Join(names, ", ")
}
