// Package cnum has numbers as NCCL's C code reads and writes them. NCCL reads those of a topology file with C's strtol
// family, and vendors' files rely on it: text after the number is ignored, and text without a number is 0.
package cnum

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Int reads like strtol: optional blanks and sign, then digits. Base 0 takes 0x (hexadecimal) and 0 (octal)
// prefixes; base 16 takes an optional 0x. Values out of range saturate.
func Int(s string, base int) int64 {
	neg, n := digits(s, base)
	switch {
	case neg && n > math.MaxInt64:
		return math.MinInt64
	case neg:
		return -int64(n)
	case n > math.MaxInt64:
		return math.MaxInt64
	}
	return int64(n)
}

// Param reads a variable as NCCL_PARAM does: what is empty or out of range counts as not set.
func Param(text string, unset int64) int64 {
	n := Int(text, 0)
	if text == "" || n == math.MaxInt64 || n == math.MinInt64 {
		return unset
	}
	return n
}

// Uint reads like strtoull: a minus sign wraps around.
func Uint(s string, base int) uint64 {
	neg, n := digits(s, base)
	if neg {
		return -n
	}
	return n
}

func digits(s string, base int) (neg bool, n uint64) {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	if s != "" && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		s = s[1:]
	}
	hexPrefix := len(s) > 2 && s[0] == '0' && s[1]|0x20 == 'x' && HexDigit(s[2]) < 16
	switch {
	case hexPrefix && (base == 0 || base == 16):
		s, base = s[2:], 16
	case base == 0 && strings.HasPrefix(s, "0"):
		base = 8
	case base == 0:
		base = 10
	}
	end := 0
	for end < len(s) && HexDigit(s[end]) < base {
		end++
	}
	n, _ = strconv.ParseUint(s[:end], base, 64) // 0 without a digit; the largest number where it is larger
	return neg, n
}

// HexDigit returns the value of a digit, or 16 for any other character.
func HexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return 16
}

// Float reads the longest decimal number at the start of s, like strtof. Text without one, and numbers that are not
// finite, are 0.
func Float(s string) float32 {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	end := 0
	for end < len(s) && strings.IndexByte("0123456789+-.eE", s[end]) >= 0 {
		end++
	}
	for ; end > 0; end-- {
		f, err := strconv.ParseFloat(s[:end], 32)
		if err == nil {
			return float32(f)
		}
		if errors.Is(err, strconv.ErrRange) {
			break
		}
	}
	return 0
}

// BusID reads a PCI address such as 0000:3b:00.0 or fffffff:ffff:ff: its hexadecimal digits (at most 16) with
// colons and dots left out, up to the first other character.
func BusID(s string) int64 {
	var digits []byte
	for i := 0; i < len(s) && len(digits) < 16; i++ {
		if s[i] == ':' || s[i] == '.' {
			continue
		}
		if HexDigit(s[i]) > 15 {
			break
		}
		digits = append(digits, s[i])
	}
	return Int(string(digits), 16)
}

// Bit is 1 for true and 0 for false.
func Bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
