package watch

import (
	"io/fs"
	"syscall"
	"time"
)

// coarse is the longest tick of a file system's clock (FAT and some servers keep
// even seconds): two changes within it may leave the same times.
const coarse = 2 * time.Second

// ID tells one state of a file from another without reading it. Two changes within one tick of the file system's
// clock may leave the same ID.
type ID struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64
}

// Identify returns the ID of a file.
func Identify(info fs.FileInfo) ID {
	id := ID{size: info.Size(), mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id.dev, id.ino, id.ctime = st.Dev, st.Ino, st.Ctim.Nano()
	}
	return id
}

// ShowsNextChange reports whether the next change of the file will surely change its ID. File systems keep time in
// ticks: of up to 10 ms by the kernel's clock, or of up to 2 s where times are whole seconds.
func (id ID) ShowsNextChange() bool {
	tick := 10 * time.Millisecond
	if id.mtime%int64(time.Second) == 0 {
		tick = coarse
	}
	return time.Since(time.Unix(0, id.mtime)) > tick
}
