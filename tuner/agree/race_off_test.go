//go:build !race

package agree

const thin = 1
