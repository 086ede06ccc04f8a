package fit

import (
	"math"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// A row says what it gains where, and how sure that is.
func TestExplanation(t *testing.T) {
	row := func(e Evidence) Row {
		r := Row{Bytes: nccl.Range{Min: 4 << 10, Max: 64 << 10}, Evidence: e}
		r.Comm, r.Channels = nccl.Comm{Nodes: 4, Ranks: 32}, 16
		return r
	}
	carried := row(Evidence{Least: .2, Most: .3, Sizes: 1, Verified: 1})
	carried.From, carried.Measured = 2, nccl.Config{Channels: 24}
	for want, r := range map[string]Row{
		"4KiB - 64KiB: 12 to 31 % faster than NCCL's default, 3 sizes measured, verified": row(Evidence{Least: .119,
			Most: .312, Sizes: 3, Verified: 3}),
		"4KiB - 64KiB: 12 to 31 % faster than NCCL's default, 3 sizes measured, 2 verified": row(Evidence{Least: .119,
			Most: .312, Sizes: 3, Verified: 2}),
		"4KiB - 64KiB: 1.2 to 3.1 % faster than NCCL's default, 3 sizes measured, one run each: not sure": row(Evidence{
			Least: .012, Most: .031, Sizes: 3, Once: true}),
		"4KiB - 64KiB: -2 to 31 % faster than NCCL's default, 3 sizes measured": row(Evidence{Least: -.02, Most: .312,
			Sizes: 3}),
		"4KiB - 64KiB: expected to be 30 % faster than NCCL's default, not measured at these sizes": row(Evidence{
			Least: .301, Most: .302}),
		"4KiB - 64KiB: expected to be 20 to 30 % faster than the best that NCCL's default can be, which was not " +
			"measured, not measured at these sizes": row(Evidence{Least: .2, Most: .3, NoDefault: true}),
		"4KiB - 64KiB: on 2 nodes with 24 channels 20 to 30 % faster than NCCL's default, " +
			"1 size measured, verified": carried,
	} {
		// NCCL's example tuner takes what is beyond 255 bytes of a line for another row.
		if got := r.explanation(); got != want || len(got) > 250 {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// What the comments say is what was measured.
func TestEvidenceOfRows(t *testing.T) {
	config := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL128}, Channels: 8}
	g := gridOf(2, map[nccl.Config][]float64{config: {80, 70, 75}})
	file := compile(g).File
	for once, pairs := range map[bool]int{true: 0, false: 9} {
		file.CurveSets[0].RepetitionPairs = pairs
		rows := Rows(mustCompile(t, file))
		if want := (Evidence{Least: 0.2, Most: 0.3, Sizes: 3, Once: once}); len(rows) != 1 ||
			math.Abs(rows[0].Evidence.Least-want.Least) > 1e-9 || math.Abs(rows[0].Evidence.Most-want.Most) > 1e-9 ||
			rows[0].Evidence.Sizes != want.Sizes || rows[0].Evidence.Once != want.Once {
			t.Errorf("%+v, want %+v", rows, want)
		}
	}
	file.CurveSets[0].Verified = []model.Verified{{Bytes: 2 << 20, Algo: "ring", Proto: "ll128", Channels: 8, Micros: 60,
		DefaultMicros: 100, Repetitions: 2}}
	if rows := Rows(mustCompile(t, file)); len(rows) != 1 || rows[0].Evidence.Verified != 1 ||
		math.Abs(rows[0].Evidence.Most-0.4) > 1e-9 {
		t.Errorf("verified at one size: %+v", rows)
	}
}
