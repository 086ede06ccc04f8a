//go:build race

package agree

// thin keeps one simulation of so many: the race detector makes them slow, and
// looks for something else.
const thin = 10
