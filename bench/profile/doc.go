// Package profile says what one job does with NCCL: its communicators, collectives and sizes, how often each is called,
// how long it takes, and what runs it.
//
// Job collects what the job left: the files of the library's recorder, the output of NCCL's inspector and the library's
// log. Its Profile is kept in a file, which Read and Write know and docs/PROFILE.md describes. What no source says
// stays empty and is never guessed. A log of decisions has no counts, an inspector up to v4.1 no algorithm.
package profile
