// Package model is the cost model that was learnt from measurements: its file, which package fit
// writes, and what it answers for a communicator.
//
// A Model is read from a File, checked as a whole and compiled once. It is immutable from then on
// and safe for any number of goroutines. Model.On is the model as it holds on a machine, Model.For
// narrows it to a communicator, View.Choose answers for one call or abstains.
//
// docs/dev/MODEL.md describes the file and when the model abstains.
package model
