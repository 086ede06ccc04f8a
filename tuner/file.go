package tuner

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/watch"
)

// maxFileBytes bounds what is read into memory; 100 000 rows are about 5 MB.
const maxFileBytes = 64 << 20

// files keeps the last version of each policy file that this process has read,
// so that the many communicators of a job compile it once. A file is looked at
// anew at every init: a process that joins a running job and the ones that are
// already there then start a new communicator on the same version.
var files = fileCache{entries: map[string]*fileVersion{}}

type fileCache struct {
	mu      sync.Mutex
	entries map[string]*fileVersion
	cleanup sync.RWMutex // held for reading while a goroutine gives memory back
}

// wait returns when no memory is being given back.
func (c *fileCache) wait() {
	c.cleanup.Lock()
	defer c.cleanup.Unlock()
}

// fileVersion is what one state of a file meant.
type fileVersion struct {
	id      watch.ID
	settled bool   // no later change can have left the id as it is
	sum     uint64 // of the content
	policy  *policy.Policy
	err     error // policy.Problems, or that the file could not be read
	report  sync.Once
}

// reportOnce says what there is to say about this version, through the first
// communicator that has a logger. It returns false, after it was said, for all
// others.
func (v *fileVersion) reportOnce(log Log, say func()) (said bool) {
	if log.Emit == nil {
		return false
	}
	v.report.Do(func() {
		said = true
		say()
	})
	return said
}

var sumSeed = maphash.MakeSeed()

// load returns the file's version. An error in it is as good a result as a policy
// and is kept like one.
func (c *fileCache) load(path string) *fileVersion {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.entries[path]
	if old != nil && old.settled {
		if info, err := os.Stat(path); err == nil && watch.Identify(info) == old.id {
			return old
		}
	}
	text, id, err := read(path)
	if err != nil {
		delete(c.entries, path)
		return &fileVersion{err: err}
	}
	v := &fileVersion{id: id, settled: id.Settled(), sum: maphash.Bytes(sumSeed, text)}
	if old != nil && old.sum == v.sum {
		old.id, old.settled = v.id, v.settled
		return old
	}
	v.policy, v.err = policy.ReadCSV(path, text)
	c.entries[path] = v
	// Reading leaves many times the policy's size in garbage. Nothing much is
	// allocated later, so it would stay for the life of the job.
	c.cleanup.RLock()
	go func() {
		defer c.cleanup.RUnlock()
		debug.FreeOSMemory()
	}()
	return v
}

func read(path string) (text []byte, id watch.ID, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, id, reason(err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, id, reason(err)
	case !info.Mode().IsRegular():
		return nil, id, fmt.Errorf("not a regular file (%s)", info.Mode().Type())
	case info.Size() > maxFileBytes:
		return nil, id, fmt.Errorf("%s is too large (allowed: up to %s)", policy.FormatBytes(uint64(info.Size())), policy.FormatBytes(maxFileBytes))
	}
	if text, err = io.ReadAll(io.LimitReader(f, maxFileBytes)); err != nil {
		return nil, id, reason(err)
	}
	return text, watch.Identify(info), nil
}

// reason drops the path that the caller's message names already.
func reason(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}
