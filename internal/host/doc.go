// Package host is the other side of the tuner ABI: it loads a tuner plugin the way NCCL does and
// asks it, for tests, tunefit doctor and simulated nccl-tests. The plugin runs in a child
// process, so that it cannot harm the caller and the caller's Go runtime cannot disturb the
// plugin's.
//
// Load starts the child, which the Plugin owns until Close. Probe starts one that ends at once.
// The child is this program again: C constructors (serve.c, probe.c) take over before Go begins.
package host
