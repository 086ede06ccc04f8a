// Package watch tells when a file may have changed, in whatever way it was
// changed: written in place, replaced by a rename, deleted and made again, or by
// exchanging a symbolic link or a directory on the way to it, as Kubernetes does
// for a ConfigMap.
//
// Each file is looked at now and then. That finds every change, also those of another
// machine on a shared file system. The kernel's events about the file's directories make
// it quick in most cases; where there are none, nothing else is missed.
//
// It reports only that a file may have changed, and sometimes when it has not:
// who reads the file knows whether its content means something else now.
//
// A process needs one Watcher, for all its files and everyone who wants to know.
// While it watches nothing, nothing of it runs.
package watch
