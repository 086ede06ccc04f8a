package dirstore

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Everybody may create files in a directory such as Shm. Another user could take any name
// that can be guessed, and remove it at any moment. So the directory that processes share
// has a random name, and counts only if it belongs to this user, who alone can make or
// remove it. Processes that start at the same time must still choose the same one:
//
//   - A process that finds one with a lock file uses it.
//   - A process that finds none makes one. It creates the lock file only after a listing
//     shows no other. If two processes make one each before they list, each sees both, so
//     two never get a lock file.
//   - Of several without a lock file, all but the first by name are removed.

const (
	chooseLimit = 10 * time.Second
	choosePause = time.Millisecond
	// madeFor is how long a directory may be without its lock file. Its maker creates the
	// file at once, or has crashed; one that was only slow starts again.
	madeFor = time.Second
)

// choose returns the directory below parent that these processes share, and its lock, held.
func choose(parent, comm string) (dir string, lock *os.File, err error) {
	begin := filepath.Join(parent, fmt.Sprintf("%s%d-%s.", privatePrefix, os.Getuid(), comm))
	mine, seen := "", map[string]time.Time{}
	defer func() {
		if mine != "" && mine != dir {
			os.Remove(mine)
		}
	}()
	for began := time.Now(); time.Since(began) < chooseLimit; {
		ready, inMaking, err := candidates(parent, begin)
		if err != nil {
			return "", nil, err
		}
		switch {
		case ready == "" && len(inMaking) == 0:
			// If mine was there, another process has removed it as one of a crashed process.
			mine = begin + strings.ToLower(rand.Text()[:8])
			if err := os.Mkdir(mine, dirMode); err != nil {
				return "", nil, err
			}
			continue
		case ready == "" && len(inMaking) == 1 && inMaking[0] == mine:
			lock, err := hold(mine, os.O_CREATE)
			if lock != nil || err != nil {
				return mine, lock, err
			}
			continue
		case ready != "":
			lock, err := hold(ready, 0)
			if lock != nil || err != nil {
				return ready, lock, err
			}
			continue // it was removed in between
		case mine != "" && mine != inMaking[0]:
			os.Remove(mine)
			mine = ""
		}
		for _, other := range inMaking {
			if at, was := seen[other]; !was {
				seen[other] = time.Now()
			} else if other != mine && time.Since(at) > madeFor {
				os.Remove(other)
			}
		}
		time.Sleep(choosePause)
	}
	return "", nil, fmt.Errorf("the processes of this user cannot agree on a directory below %s", parent)
}

// candidates returns this user's directories whose names begin with begin: the one with a lock file, if any, and
// the empty ones, sorted. A directory with records and without a lock file does not count: somebody has removed
// the file while processes used the directory.
func candidates(parent, begin string) (ready string, inMaking []string, err error) {
	dirs, err := PrivateDirs(parent, os.Getuid())
	for _, dir := range dirs {
		if !strings.HasPrefix(dir, begin) {
			continue
		}
		entries, err := os.ReadDir(dir)
		switch {
		case err != nil: // it has just been removed
		case slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == lockName }):
			return dir, nil, nil
		case len(entries) == 0:
			inMaking = append(inMaking, dir)
		}
	}
	return "", inMaking, err
}
