// Package compare says what changed between two sets of measurements: before and after an upgrade, a policy, a repair.
//
// Two pairs them by collective, communicator, data type and size. For each size it gives the ratio of the median
// times, after / before, with an interval, and a verdict: faster, slower, or nothing proven. A Table is data, in
// JSON, too; tunefit compare prints it.
//
// docs/dev/EVIDENCE.md explains the statistics: what counts as a repetition, where the
// noise comes from, and what keeps the many sizes of a table from raising false alarms.
package compare
