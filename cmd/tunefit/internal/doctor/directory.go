package doctor

import (
	"errors"
	"io/fs"
	"os"
)

// tryWriting puts a file into a directory and removes it, as the job would write one. An error says why
// it cannot; found is what else is wrong.
func tryWriting(dir string) (found []finding, err error) {
	info, err := os.Stat(dir)
	var probe *os.File
	switch {
	case err != nil:
	case !info.IsDir():
		return nil, errors.New("it is not a directory")
	default:
		probe, err = os.CreateTemp(dir, ".tmp-tunefit-doctor-*")
	}
	if at := (*fs.PathError)(nil); errors.As(err, &at) { // the message names it
		err = at.Err
	}
	if err != nil {
		return nil, err
	}
	probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		found = append(found, warned("remove it", "what was put for a probe could not be removed: %v", err))
	}
	if scarce := fileSystemOf(dir).scarce(); scarce != "" {
		found = append(found, warned("make room, or name another directory", "%s is nearly full: %s", dir, scarce))
	}
	return found, nil
}
