// Package sweep measures a cluster: it starts nccl-tests again and again, learns from each log what to measure next, and
// verifies what it would choose.
//
// All that it knows is in its folder: a journal of what was planned, begun and ended, a log of each run, and the policies
// that decided. What comes next depends on nothing else, so a sweep that was stopped, or killed, goes on where it was.
package sweep
