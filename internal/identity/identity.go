// Package identity gives each process a name that no other process ever has, and tells whether a named
// process still runs. Ranks put these names into their records, and files of metrics begin with one. A Digest is the
// name of a content.
//
// A name is text. It holds no resources and may be kept for any time.
package identity

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// New returns a new name for a member of a communicator, or for this process. No other call ever returns the
// same name. `tunefit status` shows its host and process.
func New() string {
	p := Self()
	return fmt.Sprintf("%s %s %d %d %d %s", rand.Text(), p.Host, p.PID, p.space, p.Started, p.boot)
}

// WithRank adds a member's rank to its name; -1 is an unknown rank.
func WithRank(identity string, rank int) string {
	if rank < 0 {
		return identity
	}
	return fmt.Sprintf("%s rank=%d", identity, rank)
}

// ParseRank reads the rank from a name; -1 if the name has none.
func ParseRank(identity string) int {
	_, text, told := strings.Cut(identity, " rank=")
	rank, err := strconv.Atoi(text)
	if !told || err != nil || rank < 0 {
		return -1
	}
	return rank
}

// Process is a process as a name tells of it.
type Process struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// Started is when it started, in clock ticks since boot: the kernel reuses PIDs. 0: not known.
	Started uint64 `json:"started_ticks,omitempty"`
	// space is the namespace of PID: each container has its own. 0: not known.
	space uint64
	// boot is the beginning of the kernel's boot id. It tells machines of the same name
	// apart, whose first namespaces have the same number. "": not known.
	boot string
}

// Self returns this process. It looks it up once.
var Self = sync.OnceValue(self)

func self() Process {
	p := Process{PID: os.Getpid(), space: pidSpace(), boot: bootID()}
	if p.Host, _ = os.Hostname(); p.Host == "" {
		p.Host = "?"
	}
	_, p.Started, _ = procStat(p.PID)
	return p
}

// hostMax is how long a host's name may be, HOST_NAME_MAX of Linux.
const hostMax = 64

// Parse reads the process from a name.
func Parse(identity string) (p Process, err error) {
	var unique string
	n, _ := fmt.Sscan(identity, &unique, &p.Host, &p.PID, &p.space, &p.Started, &p.boot)
	if n < 3 || len(p.Host) > hostMax {
		return Process{}, errors.New("names no process")
	}
	return p, nil
}

func (p Process) String() string { return fmt.Sprintf("%s:%d", p.Host, p.PID) }

// Unique returns a text that no other process of the machine has: its PID, and in a container the namespace
// too.
func (p Process) Unique() string {
	const first = 0xEFFFFFFC // PROC_PID_INIT_INO of Linux
	if p.space == first || p.space == 0 {
		return strconv.Itoa(p.PID)
	}
	return fmt.Sprintf("%d-%d", p.PID, p.space)
}

// State is what this machine knows of a process.
type State string

// The states of a process.
const (
	Unknown State = "unknown" // it is on another machine or in another container
	Running State = "running"
	Stopped State = "stopped" // by a signal or a debugger
	Dead    State = "dead"
)

// State looks for the process. It returns Dead only if that is certain.
func (p Process) State() State {
	here := Self()
	if p.PID < 1 || p.boot != here.boot || p.boot == "" || p.space != here.space || p.space == 0 {
		return Unknown
	}
	state, started, err := procStat(p.PID)
	switch {
	case err != nil: // without permission to look, it cannot be seen but be asked for
		if errors.Is(syscall.Kill(p.PID, 0), syscall.ESRCH) {
			return Dead
		}
		return Running
	case started != p.Started && p.Started != 0, state == 'Z', state == 'X':
		return Dead
	case state == 'T', state == 't':
		return Stopped
	}
	return Running
}

// Getenv returns a variable of the environment that the process was started with.
func (p Process) Getenv(name string) string {
	if p.State() == Unknown {
		return ""
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
	for _, variable := range strings.Split(string(text), "\x00") {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// Path returns the absolute path of a file that the process names, or false if it cannot be known here.
func (p Process) Path(file string) (path string, ok bool) {
	if state := p.State(); state == Unknown || state == Dead || file == "" {
		return "", false
	}
	if !filepath.IsAbs(file) {
		dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.PID))
		if err != nil {
			return "", false
		}
		file = filepath.Join(dir, file)
	}
	return filepath.Clean(file), true
}

func pidSpace() uint64 {
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return 0
	}
	number := strings.TrimSuffix(strings.TrimPrefix(link, "pid:["), "]")
	space, _ := strconv.ParseUint(number, 10, 64)
	return space
}

// bootID returns 64 bits of the kernel's boot id: a slot's record is to stay so small
// that a full disk has room for it.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	id := strings.ReplaceAll(strings.TrimSpace(string(text)), "-", "")
	return id[:min(len(id), 16)]
}

// procStat returns the fields 3 and 22 of proc(5)'s stat. The second, the command,
// may hold anything.
func procStat(pid int) (state byte, started uint64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, 0, errors.New("not enough fields")
	}
	started, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return fields[0][0], started, err
}

// Digest identifies what a policy, a model or both together mean: 128 bits of a SHA-256. It is that short because the
// ranks' record of their first version has to fit into an inode: a disk may be full. Conditions and models may compute
// other last bits on another processor, so the kind of processor is part of their meaning.
type Digest [16]byte

// DigestOf returns the digest of a text.
func DigestOf(text []byte) Digest {
	sum := sha256.Sum256(text)
	return Digest(sum[:len(Digest{})])
}

// String returns the first 12 hexadecimal digits, enough to tell versions apart.
func (d Digest) String() string { return hex.EncodeToString(d[:6]) }

// Full returns all hexadecimal digits; String's are the first of them.
func (d Digest) Full() string { return hex.EncodeToString(d[:]) }
