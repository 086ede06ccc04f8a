// Package bench holds measured data: samples, the readers that turn the output
// of nccl-tests into samples. Package simulate makes samples up.
//
// Read takes any of the formats and keeps account of all it saw: a time is
// either a Sample or counted in Result.Rejected with a reason. Input is read as
// a stream; what is kept is the samples, and of text and JSON the rows of one
// run.
//
// docs/MODEL.md says what to measure; docs/ARCHITECTURE.md follows a measurement.
package bench
