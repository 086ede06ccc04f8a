// Package dirstore keeps the records of agreeing ranks as files of a directory:
// one on the machine, or one that all machines share, NFS included.
//
// A record is written to a file of its own and then linked to its name, so that
// it appears whole and only once. Directories are 0700 and files 0600.
//
// Private opens the directory of what lies within one machine. It has a name that
// nobody can guess, by which all processes of the user find it all the same. It
// lives as long as a process holds it open: each holds a shared lock, and whoever
// gets the lock alone, the last to close or the next job after a crash, removes
// the directory. A shared directory is the user's and is left as it is.
package dirstore
