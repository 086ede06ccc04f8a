// Package fit turns measured samples into a cost model: it pools repetitions, says
// how good decisions by them are on data left out, and writes the model.File that a
// tuner reads at run time, and the rows of a policy. It also says what to measure
// next. The curves between measured sizes are those of package model.
//
// Everything is deterministic: the same samples in the same order give the same
// model, byte for byte. Random numbers (bootstrap) have a fixed seed.
//
// Times are ln of microseconds throughout. Differences of it are relative errors:
// 0.01 is one percent.
//
// docs/MODEL.md describes the model and the file; docs/ARCHITECTURE.md the life of a
// measurement.
package fit
