// Package watch tells when a file may have changed, in whatever way it was
// changed: written in place, replaced by a rename, deleted and made again, or by
// exchanging a symbolic link or a directory on the way to it, as Kubernetes does
// for a ConfigMap.
//
// A Watcher looks at each file now and then. That finds every change, also one that another machine makes on a
// shared file system. In most cases the kernel's events about the file's directories make it find the change at
// once. Without events it finds the same changes, only later.
//
// It reports that a file may have changed, sometimes when it has not. The caller reads the file to find out.
//
// A process needs one Watcher, for all its files and everyone who wants to know.
// While it watches nothing, nothing of it runs.
package watch
