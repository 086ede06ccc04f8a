package safefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Write puts content in the place of a file, readable for all. A reader finds either the old content or all of the new.
func Write(name string, content []byte) error {
	return replace(name, false, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// WriteDurable replaces a file. After a crash of the machine, the old or the new file is there whole. Its owner and
// permissions stay, a new one is readable for all. A pipe or a device is not replaced: it gets what is written.
func WriteDurable(name string, write func(io.Writer) error) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(file), file.Close())
	}
	return replace(name, true, write)
}

// replace writes a new file under a hidden name, and renames it. O_EXCL of CreateTemp matters in a shared directory:
// nobody can have put a file or a link there for us to write to.
func replace(name string, durable bool, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*.tmp")
	if at := (*fs.PathError)(nil); errors.As(err, &at) { // for the user, who knows no temporary file
		return &fs.PathError{Op: "write", Path: name, Err: at.Err}
	} else if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
		}
	}()
	if err := write(file); err != nil {
		return errors.Join(err, file.Close())
	}
	if durable {
		err = errors.Join(ownAs(file, name), file.Sync())
	} else {
		err = file.Chmod(0o644) // CreateTemp makes a file that only its owner reads
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}

// ownAs gives a new file the owner and permissions of the one that it replaces.
func ownAs(file *os.File, name string) error {
	old, err := os.Stat(name)
	if err != nil || !old.Mode().IsRegular() {
		return file.Chmod(0o644)
	}
	if st, ok := old.Sys().(*syscall.Stat_t); ok && (int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid()) {
		if err := file.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return fmt.Errorf("%s would change its owner: %w", name, err)
		}
	}
	return file.Chmod(old.Mode().Perm())
}
