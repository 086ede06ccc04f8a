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
	"sync/atomic"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/owner"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/regular"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/watch"
)

// maxFileBytes bounds what is read into memory; 100 000 rows are about 5 MB.
const maxFileBytes = 64 << 20

// policies and models keep the last version of each file that this process has
// read, so that the many communicators of a job compile it once. A file is looked at
// anew at every init: a process that joins a running job and the ones that are
// already there then start a new communicator on the same version.
var (
	policies = newFileCache(policy.ReadCSV)
	models   = newFileCache(policy.ReadModel)
)

type fileCache[T any] struct {
	compile func(path string, text []byte) (*T, error)
	mu      sync.Mutex
	entries map[string]*fileVersion[T]
}

func newFileCache[T any](compile func(path string, text []byte) (*T, error)) *fileCache[T] {
	return &fileCache[T]{compile: compile, entries: map[string]*fileVersion[T]{}}
}

// garbage is what reading files leaves behind.
var garbage struct {
	left  atomic.Bool
	going sync.RWMutex // held for reading while a goroutine gives it back
}

// Hoard lets garbage lie until the first files are read: to collect it meanwhile takes
// an eighth of the time that a job waits for its start. Then it is given back.
func Hoard() { debug.SetGCPercent(400) }

// giveBackGarbage begins to give back what files that were read left behind, many
// times their size. Nothing much is allocated later, so it would stay for the life of
// the job.
func giveBackGarbage() {
	if !garbage.left.Swap(false) {
		return
	}
	garbage.going.RLock()
	go func() {
		defer garbage.going.RUnlock()
		debug.SetGCPercent(100) // see Hoard
		debug.FreeOSMemory()
	}()
}

// waitForGarbage returns when nothing is being given back.
func waitForGarbage() {
	garbage.going.Lock()
	defer garbage.going.Unlock()
}

// fileVersion is what one state of a file meant.
type fileVersion[T any] struct {
	id       watch.ID
	settled  bool   // no later change can have left the id as it is
	text     []byte // for bundles alone
	sum      uint64 // of the text
	compiled *T     // nil where there is an error
	faults   error  // in the text, one a line
	unread   error  // the file could not be read
	report   sync.Once
}

// reportOnce says what there is to say about this version, through the first
// communicator that has a logger. It returns false, after it was said, for all
// others.
func (v *fileVersion[T]) reportOnce(log Log, say func()) (said bool) {
	return sayOnce(&v.report, log, say)
}

// sayOnce is for what one line in a process's log is enough for. The first to have
// a logger says it.
func sayOnce(once *sync.Once, log Log, say func()) (said bool) {
	if log.Emit == nil {
		return false
	}
	once.Do(func() {
		said = true
		say()
	})
	return said
}

var sumSeed = maphash.MakeSeed()

// load returns the file's version. An error in it is as good a result as any and is
// kept like one.
func (c *fileCache[T]) load(path string) *fileVersion[T] {
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
		return &fileVersion[T]{unread: err}
	}
	garbage.left.Store(true)
	v := &fileVersion[T]{id: id, settled: id.Settled(), text: text, sum: maphash.Bytes(sumSeed, text)}
	if old != nil && old.sum == v.sum {
		old.id, old.settled = v.id, v.settled
		return old
	}
	v.compiled, v.faults = c.compile(path, text)
	c.entries[path] = v
	return v
}

// state is equal for as long as the file's text or the reason why there is none stays;
// nil for no file.
func (v *fileVersion[T]) state() any {
	switch {
	case v == nil:
		return nil
	case v.unread != nil:
		return v.unread.Error()
	}
	return v
}

// has reports whether some version of a file was loaded.
func (c *fileCache[T]) has(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries[path] != nil
}

// filesTrusted is the process's NCCL_TUNER_FILES_TRUST, as of the last init.
var filesTrusted atomic.Bool

func read(path string) (text []byte, id watch.ID, err error) {
	f, info, err := regular.Open(path)
	if err != nil {
		return nil, id, reason(err)
	}
	defer f.Close()
	if err := owner.CheckFile(info, filesTrusted.Load()); err != nil {
		return nil, id, err
	}
	if info.Size() > maxFileBytes {
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
