// Package etcdstore keeps the records of agreeing ranks in etcd, version 3.4 and later. It serves jobs on
// several machines that share no file system.
//
// A Store lives from Open to Close, and any goroutine may use it. It owns its connection and
// a goroutine for each lease that it keeps alive. A View is for tools that only look.
//
// Below the URL's prefix lie
//
//	epoch/<group>  who uses the group's records: a lease
//	r/<key>        a record
//
// The records of a communicator are one group. The contents of versions, which communicators share, are
// another. All keys of a group have the lease of its epoch, which every process that uses the group keeps
// alive. So a record stays while any process needs it, whoever wrote it. It goes some minutes after the last
// process has gone.
//
// The lease can end too early only if no process reaches etcd for that long while etcd itself runs. So the
// transaction of each operation asks whether the epoch is still the one that this process began with. If not,
// the operation fails, and so do all later ones of the group. A process that has outlived its records must
// not take a deleted decision for one that was never made.
package etcdstore
