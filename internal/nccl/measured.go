package nccl

import (
	"slices"
	"strings"
)

// MeasuredWith reads the releases that measurements were made with, as "2.28.9" or "2.28.9, 2.30.7", and returns the
// oldest and the newest. ok is false where the text names none, or also another library, as RCCL.
func MeasuredWith(text string) (oldest, newest Version, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		v, err := ParseVersion(strings.TrimSpace(part))
		if err != nil {
			return 0, 0, false
		}
		if !ok || v < oldest {
			oldest = v
		}
		newest, ok = max(newest, v), true
	}
	return oldest, newest, ok
}

// IsRCCL reports whether the releases that measurements were made with are RCCL's, as "RCCL 2.27.7".
func IsRCCL(releases string) bool { return strings.Contains(releases, "RCCL") }

// LackedVariables returns those of the variables that rows or curves were measured under of which getenv has another
// value.
func LackedVariables(under []string, getenv func(string) string) (lacked []string) {
	for _, variables := range under {
		for variable := range strings.FieldsSeq(variables) {
			name, value, _ := strings.Cut(variable, "=")
			if strings.ReplaceAll(getenv(name), " ", "_") != value && !slices.Contains(lacked, variable) {
				lacked = append(lacked, variable)
			}
		}
	}
	return lacked
}
