package livejobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// refusedFile is a file that ranks refuse, and the first reason, with line and field. Without a reason they do not
// refuse it, or it cannot be known here.
type refusedFile struct {
	File string `json:"file"`
	finding
}

// refusalKey is a file, and whose ranks read it: they refuse files that others can change.
type refusalKey struct {
	watchedFile
	user int // see Communicator.user
}

// refusedFiles returns what the ranks refuse of their files as they are now. done has what is known already. Ranks on
// other machines most likely read the same file if it is here, too. Without it nothing is known of theirs.
func (c *Communicator) refusedFiles(done map[refusalKey]refusedFile) (all []refusedFile) {
	if c.Ended {
		return nil
	}
	for _, f := range []watchedFile{{c.Policy, false}, {c.Model, true}} {
		if !filepath.IsAbs(f.path) {
			continue
		}
		if _, err := os.Stat(f.path); err != nil && !c.here() {
			continue
		}
		key := refusalKey{f, c.user()}
		r, known := done[key]
		if !known {
			r = key.judge()
			done[key] = r
		}
		if r.Why != "" {
			all = append(all, r)
		}
	}
	return all
}

// user is the user of the ranks on this machine. -1: none is here, or it is not known whose files they accept.
func (c *Communicator) user() int {
	for _, m := range slices.Concat(c.lives(identity.Running), c.lives(identity.Stopped)) {
		info, err := os.Stat(fmt.Sprintf("/proc/%d", m.PID))
		if err != nil {
			continue
		}
		user, me := int(info.Sys().(*syscall.Stat_t).Uid), os.Geteuid()
		if me != 0 && me != user || m.Getenv(safefile.TrustVariable) == "1" {
			return -1
		}
		return user
	}
	return -1
}

// judge reads the file as its ranks do.
func (k refusalKey) judge() refusedFile {
	r := refusedFile{k.path, finding{Remedy: "correct the file, or tunefit push a good one"}}
	info, err := os.Stat(k.path)
	if err == nil && k.user >= 0 {
		if foreign := safefile.CheckOwnerAs(info, uint32(k.user)); foreign != nil {
			return refusedFile{k.path, finding{foreign.Error(), "change its owner or its permissions, which push " +
				"keeps; new jobs take it with " + safefile.TrustVariable + "=1"}}
		}
	}
	if err == nil {
		_, err = k.read()
	}
	switch {
	case err == nil, errors.Is(err, fs.ErrPermission): // its ranks may be allowed to read it
	case errors.Is(err, fs.ErrNotExist):
		r.Why = "there is no such file"
	default:
		r.Why = firstProblem(err)
	}
	return r
}

// firstProblem is the first of what is wrong with a file, and how much more there is.
func firstProblem(err error) string {
	var problems policy.Problems
	if errors.As(err, &problems) {
		return andMore(fmt.Sprint(problems[0]), len(problems)-1)
	}
	_, problem, several := strings.Cut(err.Error(), " is not a model:\n")
	if !several {
		return strings.ReplaceAll(err.Error(), "\n", " ")
	}
	lines := strings.Split(problem, "\n")
	return andMore(lines[0], len(lines)-1)
}

func andMore(first string, more int) string {
	if more == 0 {
		return first
	}
	return fmt.Sprintf("%s, and %s more", first, wording.Plural(more, "problem"))
}
