package nccl

import (
	"strings"
	"testing"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]Version{
		"2.30.7": 23007, "2.21.5": 22105, "2.32.6": 23206, "2.28": 22809, "2.31": 23102, "2.32": 23203,
	} {
		if v, err := ParseVersion(text); v != want || err != nil {
			t.Errorf("%s: %d, %v", text, v, err)
		}
		if len(strings.Split(text, ".")) == 3 && want.String() != text {
			t.Errorf("%s is written %s", text, want)
		}
	}
	for text, want := range map[string]string{
		"": "is not a release", "2": "is not a release", "2.31.0a7": "known: 2.21.5, 2.22.3,",
		"2.30.7.1": "is not a release", "v2.30.7": "is not a release",
		"2.40": "is not a release", "2.20.5": "2.20.5 has no tuner that is known here (the oldest is 2.21.5)",
		"2.18": "has no tuner", "-2.30.7": "is not a release", "2.300.7": "is not a release",
	} {
		if v, err := ParseVersion(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want an error that says %q", text, v, err, want)
		}
	}
}

func TestRules(t *testing.T) {
	var unset Version
	if unset.String() != Reference.String() || !unset.Has(BestTypePaths) || unset.Has(Models) {
		t.Error("the zero value is not the reference")
	}
	for v, want := range map[Version]Version{Reference: Reference, 23102: 23102, 23201: 23102, 23203: 23203,
		23206: 23203} {
		if got := v.Rules(); got != want {
			t.Errorf("the rules of %s stand for %s, want those of %s", got, v, want)
		}
	}
}
