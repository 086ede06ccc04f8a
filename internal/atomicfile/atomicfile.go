// Package atomicfile writes files that others may read at any moment.
package atomicfile

import (
	"os"
	"path/filepath"
)

// Write puts a file, readable for all, in the place of the one of this name. What is being written
// has a hidden name of its own, which nobody can have made before: the directory may be shared.
func Write(name string, content []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			file.Close()
			os.Remove(file.Name())
		}
	}()
	if _, err = file.Write(content); err != nil {
		return err
	}
	if err = file.Chmod(0o644); err != nil {
		return err
	}
	if err = file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
