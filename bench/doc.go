// Package bench holds measured times and reads them. A Sample is one time of a collective, with what
// is known of the configuration that ran.
//
// Read takes the text and the JSON of nccl-tests, sweep CSV and the CSV of optimize_config.py. Each
// time becomes a Sample, or it is counted in Result.Rejected with a reason. Input is a stream: memory
// holds the samples and, of text and JSON, the rows of one run. Package simulate makes samples up.
//
// docs/dev/MODEL.md says what to measure; docs/dev/ARCHITECTURE.md follows a measurement.
package bench
