// Package etcdstore keeps the records of agreeing ranks in etcd, version 3.4 and
// later: for jobs on several machines that share no file system.
//
// Each communicator has a namespace of its own below the URL's prefix:
//
//	<prefix>/<comm>/epoch          who uses the namespace: a lease
//	<prefix>/<comm>/r/<key>        a record
//	<prefix>/<comm>/part/<id>/<i>  parts of a record too large for one request
//
// All keys of a namespace hang on the one lease of its epoch, which every process
// that uses it keeps alive. So nothing that a living process needs goes away,
// whoever wrote it, and all goes away some minutes after the last process has.
//
// The lease can end too early only if no process at all reaches etcd for that long
// while etcd itself runs. Each operation therefore asks, in its transaction,
// whether the epoch is still the one that this process began with. If not, it
// fails, and so do all later ones: a process that has outlived its records never
// takes a deleted decision for one that was not made.
package etcdstore
