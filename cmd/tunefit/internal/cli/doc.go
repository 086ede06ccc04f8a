// Package cli is what the commands of tunefit share: inputs (files, gzip, standard input) recognised by their first
// bytes, outputs written whole or not at all, exit codes, progress on a terminal, and errors in the command line.
package cli
