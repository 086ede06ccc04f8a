package nccl

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Inf is a size without limit, the open upper end of a range.
const Inf = math.MaxUint64

// MaxBytes is beyond every size that was ever measured.
const MaxBytes = 1 << 50

// sizeUnits are powers of 1024, as in nccl-tests' -b and -e.
var sizeUnits = map[string]uint64{
	"": 1, "b": 1,
	"k": 1 << 10, "kib": 1 << 10,
	"m": 1 << 20, "mib": 1 << 20,
	"g": 1 << 30, "gib": 1 << 30,
	"t": 1 << 40, "tib": 1 << 40,
}

// ParseBytes reads a number of bytes: 4096, 64KiB, 1M. K, M, G and T are powers
// of 1024 with or without "iB"; KB, MB and GB mean 1000 to some and 1024 to
// others and are refused.
func ParseBytes(s string) (uint64, error) {
	digits := strings.TrimLeft(s, "0123456789")
	number, unit := s[:len(s)-len(digits)], strings.ToLower(strings.TrimSpace(digits))
	n, err := strconv.ParseUint(number, 10, 64)
	scale, known := sizeUnits[unit]
	switch {
	case number == "" || (!known && !isDecimalUnit(unit)):
		return 0, fmt.Errorf("%s is not a number of bytes (allowed: 4096, 64KiB, 1M, 2G)", wording.Quote(s))
	case !known:
		return 0, fmt.Errorf("%s is ambiguous (did you mean %s; K, M, G and T are powers of 1024)",
			wording.Quote(s), wording.Quote(number+strings.ToUpper(unit[:1])+"iB"))
	case err != nil || n > math.MaxUint64/scale:
		return 0, fmt.Errorf("%s does not fit in 64 bits", wording.Quote(s))
	}
	return n * scale, nil
}

func isDecimalUnit(unit string) bool {
	return len(unit) == 2 && strings.Contains("kmgt", unit[:1]) && unit[1] == 'b'
}

// FormatBytes writes n with the largest unit that divides it, 65536 as "64KiB",
// and Inf as "inf".
func FormatBytes(n uint64) string {
	if n == Inf {
		return "inf"
	}
	units := []string{"", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n != 0 && n%1024 == 0 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return strconv.FormatUint(n, 10) + units[i]
}
