package tuner

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// Whoever asked for a comparison that cannot be hears why: a warning, with the variable.
func TestComparisonRefused(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.csv")
	write(t, bad, "collective,algorithm\nallreduce,rign\n")
	for _, compare := range []string{bad, bad + ".none"} {
		var log recorder
		c := &Communicator{plugin: New(env()), settings: settings{compare: compare}, log: log.log()}
		if v := c.compared(); v != nil {
			t.Errorf("%s: %v", compare, v)
		}
		if log.count("WARN") < 2 || log.count("WARN TUNER/Go: NCCL_TUNER_COMPARE="+compare+" cannot be used") != 1 ||
			log.count(EnvConfigFile) != 0 {
			t.Errorf("the log: %v", log)
		}
	}
	named := policyfile.Settings{Policy: policyfile.Named{Path: "p.csv"}}
	for want, s := range map[string]settings{
		"NCCL_TUNER_RELOAD=new, not live, and so nothing is compared (": {canary: true, files: named,
			reload: reloadNew},
		"neither NCCL_TUNER_CONFIG_FILE nor NCCL_TUNER_MODEL_FILE is set": {compare: compareNCCL},
	} {
		if o := (&Communicator{settings: s}).notLive(); !strings.HasPrefix(o.text, want) {
			t.Errorf("%q, want %q", o.text, want)
		}
	}
}

// Findings are told to tools, and written to one file that has the latest. Where they cannot be written, one
// warning says so.
func TestFindingsAreTold(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	for _, record := range []string{"", dir, file} {
		var log recorder
		var notes []string
		c := &Communicator{plugin: New(env()), settings: settings{record: record}, log: log.log()}
		keep := c.keeper(c.log.About(about(c.info)), func(_ context.Context, text []byte) error {
			notes = append(notes, string(text))
			return nil
		})
		last := trial.Conclusion{Key: "c", Began: time.Unix(1_000_000, 0)}
		for pairs := range 4 {
			last.Pairs, last.Mean = pairs, -0.01*float64(pairs)
			keep(t.Context(), trial.Evidence{Result: &last})
		}
		if len(notes) != 4 || c.found.Load().Mean != last.Mean {
			t.Errorf("%q: %d notes, %+v", record, len(notes), c.found.Load())
		}
		switch record {
		case "":
			if log.count(EnvRecord) > 0 {
				t.Errorf("nobody has asked for a record: %v", log)
			}
		case file:
			const why = ": the comparison is not written: not a directory"
			if log.count("WARN TUNER/Go: communicator 0x0: NCCL_TUNER_RECORD="+file+why) != 1 {
				t.Errorf("the log: %v", log)
			}
		case dir:
			files, _ := filepath.Glob(filepath.Join(dir, telemetry.ComparisonFiles))
			if all, _ := os.ReadDir(dir); len(files) != 1 || len(all) != 1 {
				t.Fatalf("%v %v", files, all)
			}
			text, err := os.ReadFile(files[0])
			var written trial.Conclusion
			if err != nil || json.Unmarshal(text, &written) != nil || written.Mean != last.Mean {
				t.Errorf("%v %s", err, text)
			}
			if string(text) != notes[3]+"\n" {
				t.Errorf("%v %s", err, text)
			}
		}
	}
}

// A rank that asks for a comparison says so if the first slot, whose rank compares, does not,
// whichever of the two comes first.
func TestComparisonMissed(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second []string // variables of the ranks 0 and 1
		order         [2]int
		want          string // of rank 1's warning; "": none
	}{
		{"on rank 1 only", nil, []string{EnvCompare, "nccl"}, [2]int{0, 1},
			"NCCL_TUNER_COMPARE has no effect: it is set on this rank, and not on rank index 0"},
		{"rank 1 comes first", nil, []string{EnvCompare, "nccl"}, [2]int{1, 0}, "NCCL_TUNER_COMPARE has no effect"},
		{"another one of the two", []string{EnvCompare, "nccl"}, []string{EnvCanary, "1"}, [2]int{0, 1},
			"NCCL_TUNER_CANARY has no effect"},
		{"on both", []string{EnvCompare, "nccl"}, []string{EnvCompare, "nccl"}, [2]int{1, 0}, ""},
		{"on rank 0 only", []string{EnvCompare, "nccl"}, nil, [2]int{0, 1}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "p.csv")
			write(t, file, rows(1))
			said := make(chan string, 10) // warnings of rank 1
			lastID++
			var comms [2]*Communicator
			for _, rank := range c.order {
				own := append([][]string{c.first, c.second}[rank], EnvConfigFile, file, EnvRendezvous,
					filepath.Join(dir, "meet"))
				log := telemetry.Log{Emit: func(level telemetry.Level, _ string, _ int, text string) {
					if level == telemetry.Warn && strings.Contains(text, " has no effect") {
						said <- fmt.Sprintf("rank %d: %s", rank, text)
					}
				}}
				info := CommInfo{ID: 0xabc00 + lastID, Rank: rank, Comm: nccl.Comm{Nodes: 1, Ranks: 2}, ABI: 7,
					Counter: &agree.Counter{}}
				comm, err := New(env(own...)).Open(info, log)
				if err != nil {
					t.Fatal(err)
				}
				defer comm.Close()
				comms[rank] = comm
			}
			if c.want == "" {
				comms[1].warnOfMissed(t.Context()) // what the rank does in the background
				if len(said) > 0 {
					t.Error(<-said)
				}
				return
			}
			select {
			case text := <-said:
				if !strings.HasPrefix(text, "rank 1: ") || !strings.Contains(text, c.want) {
					t.Error(text)
				}
			case <-time.After(10 * time.Minute):
				t.Error("it says nothing")
			}
		})
	}
}
