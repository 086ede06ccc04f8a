package cnum

import "testing"

func TestNumbersAreReadAsInC(t *testing.T) {
	for s, want := range map[string]int64{
		"12": 12, " -3x": -3, "0x1F": 31, "010": 8, "08": 0, "": 0, "abc": 0, "0x": 0, "+7": 7,
		"99999999999999999999": 1<<63 - 1, "-99999999999999999999": -1 << 63,
	} {
		if got := Int(s, 0); got != want {
			t.Errorf("cInt(%q, 0) = %d, want %d", s, got, want)
		}
	}
	for s, want := range map[string]uint64{"0xfF": 255, "ff": 255, "-1": 1<<64 - 1, "0xg": 0} {
		if got := Uint(s, 16); got != want {
			t.Errorf("cUint(%q, 16) = %d, want %d", s, got, want)
		}
	}
	for s, want := range map[string]float32{"1.5": 1.5, "2e": 2, "-": 0, "nan": 0, "1e99": 0, "3.0us": 3} {
		if got := Float(s); got != want {
			t.Errorf("cFloat(%q) = %g, want %g", s, got, want)
		}
	}
	for s, want := range map[string]int64{"0000:3b:00.0": 0x3b000, "fffffff:ffff:ff": 0xfffffffffffff, "zz": 0} {
		if got := BusID(s); got != want {
			t.Errorf("parseBusID(%q) = %#x, want %#x", s, got, want)
		}
	}
}
