//go:build !cgo

package host

// Supported reports whether this build can load plugins: it takes cgo.
const Supported = false
