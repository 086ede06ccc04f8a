package bench

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
)

// runMetadata collects what the lines of one run tell of its setup and of its end.
type runMetadata struct {
	Setup
	gpus    map[string]bool
	failure failure
}

var (
	// "NCCL version 2.29.2+cuda13.1", "RCCL version : 2.26.6-Unknown".
	ncclVersion = regexp.MustCompile(`\b([NR])CCL version *:? *([0-9]+\.[0-9]+(?:\.[0-9]+)?)`)
	// The line that nccl-tests begins with: nccl-library=22902.
	libraryCode = regexp.MustCompile(`\bnccl-library=([0-9]+)`)
	cudaDriver  = regexp.MustCompile(`\bcudaDriverVersion ([0-9]+)`)
	driver      = regexp.MustCompile(`\b(?:Driver Version: *|(ROCm) version *: *)([0-9]+\.[0-9.]+)`)
	// What NCCL 2.19 on says when it loads a tuner: "Using tuner plugin: 'Example'" (2.19),
	// "TUNER/Plugin: Using tuner plugin Example" (2.21), "TUNER/Plugin: Using Example (v5)" (2.28),
	// RCCL's own since 2026.
	tunerLine = regexp.MustCompile(
		`\bUsing tuner plugin:? +'?([^'\s]+)|\bTUNER/Plugin: Using (\S+) \(v[0-9]+\)|` +
			`\bSuccessfully loaded external tuner plugin (\S+)|TUNER_PLUGIN set to (\S+)|` +
			`Using (built-in CSV tuner)|TUNER/(CsvTuner): Applied`)
	dateTime = regexp.MustCompile(`20[0-9]{2}-[01][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-5][0-9]`)
)

// read takes a line of a log that is no row.
func (f *runMetadata) read(line []byte) {
	if bytes.Contains(line, []byte("ersion")) || bytes.Contains(line, []byte("nccl-library=")) {
		f.versions(line)
	}
	if bytes.Contains(line, []byte("uner plugin")) || bytes.Contains(line, []byte("CSV tuner")) ||
		bytes.Contains(line, []byte("TUNER")) {
		f.tuner(line)
	}
	f.timed(line)
}

// ReadRelease reads the release from the line in which NCCL or RCCL names it, as 2.29.2 or RCCL 2.26.6; "": it is none.
func ReadRelease(line []byte) (release string) {
	if m := ncclVersion.FindSubmatch(line); m != nil {
		if release = quoted(m[2]); m[1][0] == 'R' {
			release = "RCCL " + release
		}
	}
	return release
}

func (f *runMetadata) versions(line []byte) {
	if release := ReadRelease(line); release != "" {
		f.NCCL = release
	} else if m := libraryCode.FindSubmatch(line); m != nil && f.NCCL == "" {
		f.NCCL = versionOf(atoi(m[1]))
	}
	if m := driver.FindSubmatch(line); m != nil {
		f.Driver = strings.TrimSpace(string(m[1]) + " " + quoted(m[2]))
	} else if m := cudaDriver.FindSubmatch(line); m != nil && f.Driver == "" {
		n := atoi(m[1])
		f.Driver = fmt.Sprintf("CUDA %d.%d", n/1000, n%1000/10)
	}
}

func (f *runMetadata) tuner(line []byte) {
	if bytes.Contains(line, []byte(record.Prefix)) {
		name := "nccl-tuner-go"
		e, _ := record.ReadEvent(line)
		if s, is := e.(*record.Start); is && s.Library != "" {
			name += " " + s.Library
		}
		if len(name) > len(f.Tuner) || !f.IsOurs() {
			f.Tuner = name
		}
		return
	}
	if m := tunerLine.FindSubmatch(line); m != nil && f.Tuner == "" {
		f.Tuner = loadedTuner(quoted(bytes.Join(m[1:], nil)))
	}
}

// timed keeps the first time that a line shows.
func (f *runMetadata) timed(line []byte) {
	if f.Time == "" && bytes.IndexByte(line, ':') > 0 { // rows have none, unless they have a time
		f.Time = string(dateTime.Find(line))
	}
}

// gpu takes the end of a line of the list of devices: "[0000:1b:00] NVIDIA H100 80GB HBM3".
func (f *runMetadata) gpu(name string) {
	if name = quoted([]byte(name)); name == "" {
		return
	}
	if f.gpus == nil {
		f.gpus = map[string]bool{}
	}
	if name == "stand-in (no GPU)" { // what earlier releases wrote
		name = FakePerf
	}
	f.gpus[name] = true
}
