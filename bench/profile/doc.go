// Package profile is what one job does with NCCL: its communicators, collectives and sizes, how often each is called, how
// long it takes, and what runs it. Job puts a profile together of what the job left: the files of the library's recorder, the output of NCCL's inspector and the
// library's own log. Read and Write are for the file that it is kept in, which docs/PROFILE.md describes.
//
// What no source tells stays empty and is never guessed: a log of decisions knows no counts, an inspector up to v4.1 no
// algorithm.
package profile
