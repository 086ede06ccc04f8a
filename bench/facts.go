package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
)

// facts are lines that tell of a run: a word that they have, their parts, and what is made of them.
var facts = []struct {
	word  string
	parts *regexp.Regexp
	take  func(u *testRun, process string, part []string)
}{
	// NCCL version 2.29.2+cuda13.1; RCCL version : 2.26.6-Unknown
	{"CL version", releaseLine, func(u *testRun, _ string, part []string) { u.known.NCCL = releaseOf(part) }},
	// nccl-tests version 2.18.3 nccl-headers=22902 nccl-library=22902
	{"nccl-library=", regexp.MustCompile(`\bnccl-library=([0-9]+)`), func(u *testRun, _ string, part []string) {
		u.known.NCCL = cmp.Or(u.known.NCCL, versionOf(atoi(part[1])))
	}},
	{"ersion", regexp.MustCompile(`\b(?:Driver Version: *|(ROCm) version *: *)([0-9]+\.[0-9.]+)`),
		func(u *testRun, _ string, part []string) { u.known.Driver = strings.TrimSpace(part[1] + " " + part[2]) }},
	{"cudaDriverVersion ", regexp.MustCompile(`\bcudaDriverVersion ([0-9]+)`),
		func(u *testRun, _ string, part []string) {
			n := atoi(part[1])
			u.known.Driver = cmp.Or(u.known.Driver, fmt.Sprintf("CUDA %d.%d", n/1000, n%1000/10))
		}},
	// Using tuner plugin: 'Example' (2.19); TUNER/Plugin: Using tuner plugin Example (2.21); TUNER/Plugin: Using
	// Example (v5) (2.28); and what RCCL's own says since 2026
	{"uner plugin", loadedLine, takeTuner}, {"CSV tuner", loadedLine, takeTuner}, {"TUNER", loadedLine, takeTuner},
	{"TUNER/CsvTuner: Applied", regexp.MustCompile(`Applied config for (\w+), bytes=([0-9]+): algo=(\w+), ` +
		`proto=(\w+), channels=(-?[0-9]+)`), func(u *testRun, _ string, part []string) {
		coll, known := collByName[fold(part[1])]
		if n, err := strconv.ParseUint(part[2], 10, 64); known && coll >= 0 && err == nil {
			u.log.decide(&record.Decision{Call: nccl.Call{Coll: coll, Bytes: n},
				Config: nccl.Config{Cell: CellNamed(part[3], part[4]), Channels: atoi(part[5])}})
		}
	}},
	// comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8. NCCL tells its tuner the same number of nodes.
	{" nRanks ", regexp.MustCompile(` rank [0-9]+ nRanks ([0-9]+)(?: nNodes ([0-9]+))?`),
		func(u *testRun, _ string, part []string) {
			u.comm = nccl.Comm{Ranks: atoi(part[1]), Nodes: cmp.Or(atoi(part[2]), u.comm.Nodes)}
		}},
	// 24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, 2 p2p channels per peer
	{" coll channels, ", regexp.MustCompile(`\b([0-9]{1,3}) coll channels, (?:[0-9]+ collnet channels, )?` +
		`([0-9]{1,3}) nvls channels`), func(u *testRun, _ string, part []string) {
		u.log.most = cmp.Or(u.log.most, MostChannels{atoi(part[1]), atoi(part[2])})
	}},
	// Channel 00 : 0[0] -> 1[1] via SHM/direct
	{" via SHM/", anyLine, func(u *testRun, _ string, _ []string) { u.log.sharesMem = true }},
	{"ncclDdaIpcCommInit", anyLine, func(u *testRun, _ string, _ []string) { u.log.direct = true }},
	// Input: { ..., .func = AllReduce, ..., .nBytes = 1024, ... } (2.31)
	{"Input: {", regexp.MustCompile(`[. ]func = ([^,} ]*).*[. ]nBytes = ([0-9]+)`),
		func(u *testRun, process string, part []string) {
			if n, err := strconv.ParseUint(part[2], 10, 64); err == nil {
				u.log.pending[process] = logKey{operation(fold(part[1])), n, u.log.pass[process]}
			}
		}},
	// Best tuning { ..., .algo = RING, .proto = LL, ..., nChannels = 2, ... }, of the question before
	{"Best tuning {", regexp.MustCompile(`Best tuning \{(?:.*[. ]algo = ([^,} ]*).*[. ]proto = ([^,} ]*))?` +
		`(?:.*[. ]nChannels = ([0-9]+))?`), func(u *testRun, process string, part []string) {
		key, asked := u.log.pending[process]
		if !asked {
			return
		}
		delete(u.log.pending, process)
		ran := nccl.Config{Cell: CellNamed(part[1], part[2]), Channels: atoi(part[3])}
		if !ran.Known() {
			u.log.symmetric, ran = true, noLabel
		}
		u.log.vote(key, ran)
	}},
}

var (
	anyLine    = regexp.MustCompile(``)
	loadedLine = regexp.MustCompile(`\bUsing tuner plugin:? +'?([^'\s]+)|\bTUNER/Plugin: Using (\S+) \(v[0-9]+\)|` +
		`\bSuccessfully loaded external tuner plugin (\S+)|TUNER_PLUGIN set to (\S+)|Using (built-in CSV tuner)|` +
		`TUNER/(CsvTuner): Applied`)
	dateTime = regexp.MustCompile(`20[0-9]{2}-[01][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-5][0-9]`)
	// setByLog is how NCCL's log tells a variable.
	setByLog = regexp.MustCompile(`\b([NR]CCL_[A-Z0-9_]+) set by environment to +(.*?)\.?\s*$`)
)

func takeTuner(u *testRun, _ string, part []string) {
	u.known.Tuner = cmp.Or(u.known.Tuner, loadedTuner(quoted([]byte(strings.Join(part[1:], "")))))
}

// tell takes what a line that is no row tells of the run. process is that of NCCL's log; nil: it is another line.
func (u *testRun) tell(process, line []byte) {
	if ran, ok := ReadRan(line); ok {
		u.log.perRank, u.log.symmetric = u.log.perRank || ran.PerRank, u.log.symmetric || ran.NoTuner
		u.log.vote(logKey{operation(ran.Operation), ran.Bytes, u.log.pass[string(process)]}, ran.Config)
		return
	}
	u.tellTime(line)
	if bytes.Contains(line, []byte(record.Prefix)) {
		u.ours(string(process), line)
		return
	}
	for _, f := range facts {
		if !bytes.Contains(line, []byte(f.word)) {
			continue
		}
		if m := f.parts.FindStringSubmatch(string(line)); m != nil {
			f.take(u, string(process), m)
		}
	}
}

// tellTime keeps the first time that a line shows.
func (u *testRun) tellTime(line []byte) {
	if u.known.Time == "" && bytes.IndexByte(line, ':') > 0 {
		u.known.Time = string(dateTime.Find(line))
	}
}

// ours takes a line of our library.
func (u *testRun) ours(process string, line []byte) {
	name := "nccl-tuner-go"
	switch e, _ := record.ReadEvent(line); e := e.(type) {
	case *record.Start:
		name = strings.TrimSpace(name + " " + e.Library)
	case *record.Decision:
		u.log.decide(e)
	case *record.Pass:
		u.log.pass[process] = e.N
	case *record.Available:
		for algo, proto := range nccl.Cells {
			cell := nccl.Cell{Algo: algo, Proto: proto}
			u.log.offer(e.Coll, cell, slices.Contains(e.Cells, cell))
		}
	}
	if len(name) > len(u.known.Tuner) || !u.known.IsOurs() {
		u.known.Tuner = name
	}
}
