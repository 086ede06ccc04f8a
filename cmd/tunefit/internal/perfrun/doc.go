// Package perfrun turns what is worth measuring into starts of nccl-tests: which configurations may be tried at all, in
// which program, with which options and environment, and with which policy of our library.
package perfrun
