package nccl

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// What stands for a configuration on a command line, and what is said of the rest.
func TestParseConfig(t *testing.T) {
	for text, want := range map[string]string{
		"ring/ll":             "ring/ll 0",
		"NVLSTree/Simple/1":   "nvls_tree/simple 1",
		"tree/ll128/64":       "tree/ll128 64",
		"ring":                `"ring": not ALGORITHM/PROTOCOL or ALGORITHM/PROTOCOL/CHANNELS`,
		"ring/ll/1/2":         `"ring/ll/1/2": not ALGORITHM/PROTOCOL`,
		"rign/ll":             `"rign/ll": unknown algorithm "rign" (did you mean "ring"`,
		"ring/l":              `"ring/l": unknown protocol "l"`,
		"ring/ll/0":           `"ring/ll/0": channels are "0" (allowed: 1 to 64)`,
		"ring/ll/65":          `channels are "65"`,
		"ring/ll/-1":          `channels are "-1"`,
		"ring/ll/":            `channels are ""`,
		"ring/ll/x":           `channels are "x"`,
		"ring/ll/99999999999": `channels are "99999999999"`,
	} {
		c, err := ParseConfig(text)
		got := fmt.Sprint(c.Cell, " ", c.Channels)
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != want || !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// NCCL never chooses a cell below zero, nor one that is not below FLT_MAX.
func TestOffers(t *testing.T) {
	inf := float32(math.Inf(1))
	for micros, want := range map[float32]bool{Unavailable: false, 0: true, TunerOnly: true, math.MaxFloat32: false,
		inf: false} {
		c := Costs{Micros: []float32{micros}, NumProto: 1}
		if c.Offers(Cell{AlgoTree, ProtoLL}) != want {
			t.Errorf("a cell of %g us is offered: %v", micros, !want)
		}
	}
}
