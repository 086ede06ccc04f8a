// Package bench holds measured times and reads them. A Sample is one time of a collective, with what
// is known of the configuration that ran.
//
// Read takes the text and the JSON of nccl-tests, sweep CSV and the CSV of optimize_config.py. Each
// time becomes a Sample, or it is counted in Result.Rejected with a reason. Input is a stream: memory
// holds the samples and, of text and JSON, the rows of one run. Package simulate makes samples up.
//
// Data goes one way. A scanner (lines.go) parts a line from what launchers put before it; text.go, json.go and csv.go
// make rows and facts of it, by the tables of columns.go and facts.go. A run (run.go) holds them, and is closed when
// its table ends. resolve.go finds what it measured and on what, labels.go what ran, vain.go what did not, from the
// closed run. Settings (settings.go) are known from NCCL's log, nccl-tests, our own sweeps and the caller. All else
// that a text says of them is a mention (mentions.go): what NCCL's log or nccl-tests' header does not confirm is
// unknown. findings.go has all that is said of a file.
//
// docs/dev/MODEL.md says what to measure; docs/dev/ARCHITECTURE.md follows a measurement.
package bench
