// Package lint finds what is wrong with a tuning policy or a cost model although a tuner would accept it: rows
// that nothing reaches, combinations that NCCL never offers, sizes left out by mistake. It knows no NCCL at
// run time; with NCCL's estimates of a machine it also finds what that machine cannot do.
//
// A finding is a claim about the file and has to be true. A check that cannot be sure says nothing.
//
// docs/COMMANDS.md lists the rules.
package lint
