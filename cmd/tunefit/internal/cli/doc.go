// Package cli is what every command of tunefit shares with the shell: inputs (files, gzip, standard input) told apart
// by their beginnings, outputs written whole or not at all, exit codes, progress on a terminal, and what a wrong
// command line may have meant.
package cli
