// Package bench holds measured data: samples, the readers that turn the output
// of nccl-tests into samples, and the simulator that makes them up.
package bench
