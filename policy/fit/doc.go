// Package fit turns measured samples into a cost model and into the rows of a policy.
// It pools repetitions, tries decisions on data left out of the fit, and writes the
// model.File that a tuner reads at run time. It also says what to measure next.
// Package model has the curves between measured sizes.
//
// Everything is deterministic: the same samples in the same order give the same
// model, byte for byte. Random numbers (bootstrap) have a fixed seed.
//
// Times are ln of microseconds throughout. Differences of it are relative errors:
// 0.01 is one percent.
//
// docs/dev/MODEL.md describes the model and the file; docs/dev/ARCHITECTURE.md the life of a
// measurement.
package fit
