// Package host is the other side of the tuner ABI: it loads a tuner plugin the
// way NCCL does and asks it. The plugin runs in a child process, so that it
// cannot harm the caller and the caller's Go runtime cannot disturb the plugin's.
package host
