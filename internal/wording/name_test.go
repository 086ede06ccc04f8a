package wording

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"tree", "ring", "nvls_tree", "ll"}
	for got, want := range map[string]string{
		"rign":                                  "ring",
		"NVLS-tree":                             "nvls_tree",
		"l":                                     "ll",
		"x":                                     "",
		"":                                      "",
		"ring" + strings.Repeat("x", longest-4): "",
		strings.Repeat("ring", 1<<18):           "", // a file of another kind: to compare it would take minutes
	} {
		if near := Nearest(got, known); near != want {
			t.Errorf("%.80q: %q, want %q", got, near, want)
		}
	}
}

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"a\"b":                             `"a\"b"`,
		strings.Repeat("x", 60):            `"` + strings.Repeat("x", 60) + `"`,
		strings.Repeat("x", 61):            `"` + strings.Repeat("x", 60) + `"...`,
		strings.Repeat("x", 59) + "\u00e9": `"` + strings.Repeat("x", 59) + `"...`,
	} {
		if got := Quote(word); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
