// Package sweep measures a cluster. It starts nccl-tests again and again, learns from each log what to measure next,
// and verifies what it would choose.
//
// Its folder holds all that it knows: a journal of what was planned, begun and ended, a log of each run, and the
// policies that decided. The next run depends on nothing else, so a sweep that was stopped or killed continues where
// it was.
//
// next.go plans, run.go runs, judge.go and failed.go tell what failed, results.go reads what was measured.
package sweep
