package bench

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Output of nccl-tests of all ages, written for this project, and logs of others. The counts were found by reading the
// files: rows times two, less zero sizes, halves that failed and what the format's name says.
func TestReadCollectedFormats(t *testing.T) {
	const unlabelled, byEnv, measured = originNone, originVariables, originMeasured
	for _, c := range []struct {
		file           string
		kept, rejected int
		labels         Origin
		first          Sample // DType, AlgBW, BusBW, Source and Setup are not compared
		dtypes         int
	}{
		{file: "01_real_v2.0-2.12_alltoall.txt", rejected: 68},
		{"01_real_v2.0-2.12_error_col_allgather_noredop.txt", 58, 10, unlabelled,
			at(nccl.CollAllGather, 32, "", 1, 8, 35.03), 1},
		{"01_real_v2.0-2.12_error_col_allreduce.txt", 64, 4, unlabelled, at(nccl.CollAllReduce, 4, "sum", 1, 8, 34.73),
			1},
		{"01_real_v2.0-2.12_error_col_broadcast_root.txt", 64, 4, unlabelled,
			at(nccl.CollBroadcast, 4, "", 1, 8, 33.96), 1},
		{"01_real_v2.0-2.12_error_col_reduce_redop_root.txt", 64, 4, unlabelled,
			at(nccl.CollReduce, 4, "sum", 1, 8, 35.40), 1},
		{"01_real_v2.0-2.12_reducescatter.txt", 58, 10, unlabelled, at(nccl.CollReduceScatter, 32, "sum", 1, 8, 35.06),
			1},
		{"02_real_v2.13+_wrong_col_zero_size_rows.txt", 46, 12, unlabelled,
			at(nccl.CollAllGather, 256, "", 2, 16, 37.42), 1},
		{file: "03_real_truncated_run.txt"},
		{"04_real_v2.17.8_concatenated_multi_collective_reducing_maxbytes.txt", 60, 40, unlabelled,
			at(nccl.CollAllReduce, 33554432, "sum", 10, 10, 1405.25), 1},
		{"05_real_v2.17.6_debug_trace_interleaved_head400.txt", 546, 2, unlabelled,
			at(nccl.CollAllReduce, 1024, "sum", 2, 2, 26.64), 1},
		{"06_real_v2.18.3_rows_split_by_NCCL_INFO_lines.txt", 12, 0, measured,
			ringSimple(at(nccl.CollAllReduce, 268435456, "sum", 1, 2, 892.85), 24), 1},
		{"07_real_v2.18.3_R2_symmetric_graph1.txt", 44, 0, unlabelled, at(nccl.CollAllReduce, 8, "sum", 1, 4, 19.28),
			1},
		{"08_real_headerless_grep_rows_with_shell_markers.txt", 18, 0, originAsked,
			unknown(at(nccl.CollAllReduce, 268435456, "sum", 0, 4, 1187.29)), 1}, // headings hint at what ran
		{"09_real_third_party_csv_reexport.csv", 31, 0, unlabelled, at(nccl.CollAllReduce, 8, "", 0, 4, 22.72), 1},
		{"10_real_RCCL_rccl-tests_version_line.txt", 64, 0, unlabelled, at(nccl.CollAllReduce, 4, "sum", 2, 16, 46.16),
			1},
		{"11_real_slurm_out_with_env_preamble.txt", 60, 0, originAsked, at(nccl.CollAllReduce, 8, "sum", 2, 8, 18.84),
			1},
		{"11b_real_header_without_hash.txt", 60, 0, unlabelled, at(nccl.CollAllReduce, 8, "sum", 0, 8, 18.84), 1},
		{"J1_synth_json_v1_fixed_keys_v2.17.9-2.19.0.json", 6, 0, byEnv,
			forced(at(nccl.CollAllReduce, 1<<20, "sum", 2, 2, 41.2), nccl.AlgoRing, nccl.ProtoLL128), 1},
		{"J1_synth_json_v1_typo_keys_v2.17.5-2.17.8.json", 6, 0, byEnv,
			forced(at(nccl.CollAllReduce, 1<<20, "sum", 2, 2, 41.2), nccl.AlgoRing, nccl.ProtoLL128), 1},
		{"J2_synth_json_v2_per_iter_v2.19.2+.json", 6, 0, byEnv,
			forced(at(nccl.CollAllReduce, 1<<20, "sum", 2, 2, 41.2), nccl.AlgoRing, nccl.ProtoLL128), 1},
		{"J3_synth_json_v3_per_iter_skip_v2.19.6.json", 6, 0, byEnv,
			forced(at(nccl.CollAllReduce, 1<<20, "sum", 2, 2, 41.2), nccl.AlgoRing, nccl.ProtoLL128), 1},
		{"J4_synth_json_truncated_crash_pre2.18.4.json", 2, 1, byEnv,
			forced(at(nccl.CollAllReduce, 1<<20, "sum", 2, 2, 41.2), nccl.AlgoRing, nccl.ProtoLL128), 1},
		{"S0_synth_2017_initial_ms_res_col.txt", 6, 0, unlabelled, at(nccl.CollAllReduce, 1<<20, "sum", 1, 2, 41), 1},
		{"S10_synth_v2.18.3_validation_FAILED.txt", 1, 1, unlabelled,
			inPlace(at(nccl.CollAllReduce, 1<<20, "sum", 2, 2, 40.9)), 1},
		{"S11_synth_openmpi_tag-output_prefix.txt", 6, 0, unlabelled, at(nccl.CollAllReduce, 1<<20, "sum", 2, 2, 41.2),
			1},
		{"S12_synth_srun_-l_prefix.txt", 6, 0, unlabelled, at(nccl.CollAllReduce, 1<<20, "sum", 2, 2, 41.2), 1},
		{"S13_synth_openmpi5_prterun_prefix.txt", 6, 0, unlabelled, at(nccl.CollAllReduce, 1<<20, "sum", 2, 2, 41.2),
			1},
		{"S14_synth_side_work_copybw_untagged_master_2024-07_2025-09.txt", 6, 0, unlabelled,
			at(nccl.CollAllReduce, 1<<20, "sum", 1, 2, 41.2), 1},
		{"S1_synth_v2.18.3_dall_oall.txt", 324, 0, unlabelled, at(nccl.CollAllReduce, 1<<20, "sum", 2, 2, 41.2), 9},
		{"S2_synth_v2.18.3_rootall_broadcast.txt", 12, 0, unlabelled, at(nccl.CollBroadcast, 1<<20, "", 2, 2, 41.2), 1},
		{"S3_synth_v2.18.3_z1_blocking.txt", 6, 0, unlabelled, at(nccl.CollAllReduce, 1<<20, "sum", 2, 2, 41.2), 1},
		{"S3_synth_v2.19.6_z3_blocking.txt", 6, 0, unlabelled, at(nccl.CollAllReduce, 1<<20, "sum", 2, 2, 41.2), 1},
		{file: "S4_synth_v2.18.3_C1_cputime.txt", rejected: 6},
		{"S5_synth_v2.18.3_S1_timestamps.txt", 6, 0, unlabelled, at(nccl.CollAllReduce, 1<<20, "sum", 2, 2, 41.2), 1},
		{"S6_synth_v2.19.6_I1_K2_per_iter.txt", 6, 0, unlabelled, at(nccl.CollAllReduce, 1<<20, "sum", 2, 2, 41.2), 1},
		{"S7_synth_v2.18.3_c0_nocheck_NA.txt", 6, 0, unlabelled, at(nccl.CollAllReduce, 1<<20, "sum", 2, 2, 41.2), 1},
		{"S8_synth_v2.18.3_M1_memory.txt", 6, 0, unlabelled, at(nccl.CollAllReduce, 1<<20, "sum", 2, 2, 41.2), 1},
		{"S9_synth_v2.18.3_N3_run_cycles_repeat_rows.txt", 18, 0, unlabelled,
			at(nccl.CollAllReduce, 1<<20, "sum", 2, 2, 41.2), 1},
	} {
		t.Run(c.file, func(t *testing.T) {
			dir, others := "testdata/formats", strings.Contains(c.file, "_real_")
			if others { // other people's logs are not part of this repository
				dir = "../../shared/data/formats"
			}
			r, err := readFile(filepath.Join(dir, c.file), Options{})
			if others && errors.Is(err, fs.ErrNotExist) {
				t.Skipf("SKIPPED: a log of others: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Samples) != c.kept || r.NumRejected() != c.rejected {
				t.Errorf("%d kept, %d rejected, want %d and %d: %v", len(r.Samples), r.NumRejected(), c.kept,
					c.rejected, r.Rejected)
			}
			if r.Labels[c.labels] != c.kept {
				t.Errorf("labels %v, want all from %s", r.Labels, c.labels)
			}
			if c.kept == 0 || len(r.Samples) == 0 {
				return
			}
			first, dtypes := r.Samples[0], map[string]bool{}
			for _, s := range r.Samples {
				dtypes[s.DType] = true
			}
			if !strings.Contains(first.Source, c.file) || len(dtypes) != c.dtypes {
				t.Errorf("source %s, types %v", first.Source, dtypes)
			}
			first.DType, first.AlgBW, first.BusBW, first.Source, first.Setup = "", 0, 0, "", nil
			if first != c.first {
				t.Errorf("first sample\n%+v, want\n%+v", first, c.first)
			}
		})
	}
}

func at(coll nccl.Coll, bytes uint64, redop string, nodes, ranks int, micros float64) Sample {
	return Sample{Call: nccl.Call{Coll: coll, Bytes: bytes}, RedOp: redop, Config: nccl.Config{Cell: nccl.NoCell},
		Comm: nccl.Comm{Nodes: nodes, Ranks: ranks}, Selection: SelectionDefault, Micros: micros, Start: 1, Pass: 1}
}

func forced(s Sample, algo nccl.Algo, proto nccl.Proto) Sample {
	s.Algo, s.Proto, s.Selection = algo, proto, SelectionForced
	return s
}

func ringSimple(s Sample, channels int) Sample {
	s.Algo, s.Proto, s.Channels = nccl.AlgoRing, nccl.ProtoSimple, channels
	return s
}

func unknown(s Sample) Sample {
	s.Selection = SelectionUnknown
	return s
}

func inPlace(s Sample) Sample {
	s.InPlace = true
	return s
}

// Sweeps that others measured are read whole: every row is kept or counted.
func TestReadCollectedSweeps(t *testing.T) {
	files, err := filepath.Glob("../docs/measured/*.csv")
	if err != nil || len(files) == 0 {
		t.Fatalf("no measured sweeps (%v)", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := readFile(file, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if rows := strings.Count(string(text), "\n") - 1; len(r.Samples)+r.NumRejected() != rows ||
			len(r.Samples) < rows*9/10 {
			t.Errorf("%s: %d kept and %d rejected of %d rows", file, len(r.Samples), r.NumRejected(), rows)
		}
	}
}

// A line names the columns if each half has them behind its time, in the same order.
func TestLayoutOf(t *testing.T) {
	for line, want := range map[string]bool{
		"# size count type time algbw busbw #wrong time algbw busbw #wrong": true,
		"size time algbw busbw error":                                       true,
		"size algbw time busbw error":                                       false,
		"size time algbw busbw error time busbw algbw error":                false,
		"size time algbw busbw error time algbw busbw error time":           false,
		"size time algbw busbw":                                             false,
		"count time algbw busbw error":                                      false,
	} {
		if _, ok := layoutOf(bytes.Fields([]byte(line))); ok != want {
			t.Errorf("%q: %v", line, ok)
		}
	}
}

// RCCL's algorithm, protocol and channels end a row. It may not know the channels.
func TestTakeLabels(t *testing.T) {
	ringLL := nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}
	for line, want := range map[string]struct {
		left int
		nccl.Config
	}{
		"1.5 0 Ring LL 12":  {2, nccl.Config{Cell: ringLL, Channels: 12}},
		"1.5 0 Ring LL N/A": {2, nccl.Config{Cell: ringLL}},
		"1.5 0 Ring LL x":   {5, noLabel},
		"1.5 0 Rign LL 12":  {2, noLabel},
		"1.5 0 LL 12":       {4, noLabel},
	} {
		r := row{Sample: Sample{Config: noLabel}}
		left := (&layout{known: true, hasLabels: true}).takeLabels(bytes.Fields([]byte(line)), &r)
		if len(left) != want.left || r.Config != want.Config {
			t.Errorf("%q: %s, and %q is left", line, r.Config, left)
		}
	}
}
