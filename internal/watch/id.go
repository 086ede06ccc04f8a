package watch

import (
	"io/fs"
	"syscall"
	"time"
)

// coarse is the longest tick of a file system's clock (FAT and some servers keep
// even seconds): two changes within it may leave the same times.
const coarse = 2 * time.Second

// id tells one state of a file from another without reading it. Two changes within one tick of the file system's
// clock may leave the same id.
type id struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64
}

// identify returns the id of a file.
func identify(info fs.FileInfo) id {
	one := id{size: info.Size(), mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		one.dev, one.ino, one.ctime = st.Dev, st.Ino, st.Ctim.Nano()
	}
	return one
}
