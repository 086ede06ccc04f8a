// Package fit turns measured samples into a cost model: it pools repetitions,
// fits one model per collective, communicator, algorithm and protocol, says how
// good that is on data it has not seen, and writes the model.Model that a tuner
// reads at run time.
//
// Everything is deterministic: the same samples in the same order give the same
// model, byte for byte. Random numbers (bootstrap) have a fixed seed.
//
// Times are modelled as ln of microseconds throughout. Differences of it are
// relative errors: 0.01 is one percent.
//
// docs/MODEL.md describes the model and the file; docs/ARCHITECTURE.md the life of a
// measurement.
package fit
