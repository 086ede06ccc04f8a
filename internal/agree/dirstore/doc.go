// Package dirstore keeps the records of agreeing ranks as files of a directory. The directory is on the
// machine, or one that all machines share, NFS included.
//
// A Store lives from Open, Private or Look to Close, and any goroutine may use it. A shared
// directory belongs to the user and stays. A private one, which Private opens, lies within
// one machine and lives as long as a process holds it open: each process holds a shared
// lock. The last process to close it, or the next job after a crash, gets the lock alone and
// removes the directory. Its name cannot be guessed, but all processes of the user find it.
//
// A record is written to a file of its own and then linked to its name, so that
// it appears whole and only once. Directories are 0700 and files 0600.
package dirstore
