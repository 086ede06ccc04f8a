// Package watch tells when a file may have changed, in whatever way it was
// changed: written in place, replaced by a rename, deleted and made again, or by
// exchanging a symbolic link or a directory on the way to it, as Kubernetes does
// for a ConfigMap.
//
// The kernel's events about the directories on that way make it quick. They do
// not tell all: not what another machine does to a shared file system, nor what
// happens above those directories, and the kernel may have none to give. So each
// file is also looked at now and then, and then alone if need be. The watcher
// never gives up.
//
// It reports only that a file may have changed, and sometimes when it has not:
// who reads the file knows whether its content means something else now.
//
// A process needs one Watcher, for all its files and everyone who wants to know.
// While it watches nothing, nothing of it runs.
package watch
