// Package when compiles and evaluates the conditions of a policy's rows.
//
// A condition sees only what all ranks of a communicator find alike, its cost is bounded by the
// length of its text, and what cannot be computed does not hold: see Condition and Env. The syntax
// is that of expr-lang, which expr.go alone knows.
//
// docs/CSV.md describes conditions for those who write them.
package when
