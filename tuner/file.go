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
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/owner"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/regular"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/watch"
)

// maxFileBytes bounds what is read into memory; 100 000 rows are about 5 MB.
const maxFileBytes = 64 << 20

// maxLiveBytes is for a change during a run, which all ranks compile while they work:
// some 150 000 rows take a second. A larger one would hold up those that follow it.
const maxLiveBytes = 8 << 20

// readLimit bounds the wait for a file system.
const readLimit = 10 * time.Second

// policies and models keep the last version of each file that this process has
// read, so that the many communicators of a job compile it once. A file is looked at
// anew at every init: a process that joins a running job and the ones that are
// already there then start a new communicator on the same version.
var (
	policies = newFileCache(policy.ReadCSV)
	models   = newFileCache(model.Read)
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
	fileState
	text     []byte // for bundles alone
	compiled *T     // nil where there is an error
	faults   error  // in the text, one a line
	unread   error  // the file could not be read
	report   sync.Once
}

// fileState tells the states of a file apart.
type fileState struct {
	id      watch.ID
	settled bool   // no later change can have left the id as it is
	sum     uint64 // of the text
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
// kept like one. A new state of the file of more than most bytes is not read. No lock is
// held while the file system is asked.
func (c *fileCache[T]) load(path string, most int64) *fileVersion[T] {
	c.mu.Lock()
	old := c.entries[path]
	var known fileState
	if old != nil {
		known = old.fileState
	}
	c.mu.Unlock()
	found, err := ask(&unanswered, path, readLimit, func() (content, error) { return read(path, known, most) })
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e := c.entries[path]; {
	case err != nil:
		delete(c.entries, path)
		return &fileVersion[T]{unread: err}
	case found.known:
		return old
	case e != nil && e.sum == found.sum:
		e.fileState = found.fileState
		return e
	}
	v := &fileVersion[T]{fileState: found.fileState, text: found.text}
	v.compiled, v.faults = c.compile(path, v.text)
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

// otherRanks is why a rank fails that does not get what another may have got.
const otherRanks = "other ranks may have read it, and this one must not decide differently"

// hangs returns an error if the file that a variable names was not read because its
// file system hangs. v may be nil.
func (v *fileVersion[T]) hangs(variable string) error {
	if v == nil || !errors.As(v.unread, new(noAnswer)) {
		return nil
	}
	return fmt.Errorf("the file that %s names: %w; %s", variable, v.unread, otherRanks)
}

// has reports whether some version of a file was loaded.
func (c *fileCache[T]) has(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries[path] != nil
}

// filesTrusted is the process's NCCL_TUNER_FILES_TRUST, as of the last init.
var filesTrusted atomic.Bool

// content is what a file holds; known that it is what it was.
type content struct {
	known bool
	text  []byte
	fileState
}

func read(path string, before fileState, most int64) (c content, err error) {
	if before.settled {
		if info, err := os.Stat(path); err == nil && watch.Identify(info) == before.id {
			return content{known: true}, nil
		}
	}
	f, info, err := regular.Open(path)
	if err != nil {
		return c, reason(err)
	}
	defer f.Close()
	if err := owner.CheckFile(info, filesTrusted.Load()); err != nil {
		return c, err
	}
	c.id = watch.Identify(info)
	if info.Size() > most {
		c.known = c.id == before.id // and was read when more was allowed
		if !c.known {
			err = tooLarge(info.Size(), most)
		}
		return c, err
	}
	garbage.left.Store(true)
	if info.Size() > maxLiveBytes {
		debug.SetGCPercent(100) // to hoard would take a gigabyte
	}
	if c.text, err = io.ReadAll(io.LimitReader(f, most)); err != nil {
		return c, reason(err)
	}
	c.settled, c.sum = c.id.Settled(), maphash.Bytes(sumSeed, c.text)
	return c, nil
}

func tooLarge(size, most int64) error {
	if most == maxFileBytes {
		return fmt.Errorf("%s is too large (allowed: up to %s)", nccl.FormatBytes(uint64(size)), nccl.FormatBytes(maxFileBytes))
	}
	return fmt.Errorf("%s is too large for a change during a run (allowed: up to %s; communicators that are created later read up to %s)",
		nccl.FormatBytes(uint64(size)), nccl.FormatBytes(uint64(most)), nccl.FormatBytes(maxFileBytes))
}

// reason drops the path that the caller's message names already.
func reason(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}
