package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/dirstore"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// reloadMode is when a change of the files takes effect: live, new or off.
func reloadMode(e *localenv.Environment) string {
	if isOn(e, tuner.EnvDeterministic) {
		return "off"
	}
	switch mode := e.Get(tuner.EnvReload); mode {
	case "", "live", "uniform":
		return "live"
	case "off":
		return "off"
	}
	return "new" // the tuner also takes unknown values for it
}

func (d *doctor) examineRendezvous(ctx context.Context) []Finding {
	name := d.env.Get(tuner.EnvRendezvous)
	switch mode := reloadMode(d.env); {
	case isOn(d.env, tuner.EnvDeterministic):
		return []Finding{noted("", "not used: %s, a process stays with what it read first; do not edit while "+
			"communicators are being created", d.env.Show(tuner.EnvDeterministic))}
	case mode == "off":
		return []Finding{noted("", "not used: %s, a process stays with what it read first",
			d.env.Show(tuner.EnvReload))}
	case mode == "new":
		return []Finding{
			noted("", "not used: with %s an edit takes effect in communicators created later only; do not edit while "+
				"some are being created", d.env.Show(tuner.EnvReload))}
	case name == "" && d.Nodes > 1:
		return []Finding{
			warned("set "+tuner.EnvRendezvous+" to a directory that all nodes share, or to etcd://HOST:PORT/PREFIX",
				"%s is not set, and the job has %d nodes: edits do not take effect during the run, and an edit while "+
					"communicators are created can hang the job", tuner.EnvRendezvous, d.Nodes)}
	case name == "":
		return d.placeFindings(ctx, d.shm, true)
	case tuner.IsEtcd(name):
		return d.etcdFindings(ctx, name)
	case strings.Contains(name, "://"):
		return []Finding{failed("name a directory, or etcd://HOST:PORT/PREFIX", "%s is not understood",
			d.env.Show(tuner.EnvRendezvous))}
	}
	return append(d.relative(tuner.EnvRendezvous), d.placeFindings(ctx, name, false)...)
}

func (d *doctor) etcdFindings(ctx context.Context, url string) (found []Finding) {
	if p := d.plugin(); p.ours && !p.etcd {
		found = append(found, failed("load libnccl-tuner-go-etcd.so instead (in packages, else make etcd)",
			"%s: %s is built without etcd", d.env.Show(tuner.EnvRendezvous), p.path))
	}
	if !tuner.HasEtcd {
		return append(found,
			unknown("%s: this tunefit is built without etcd and cannot ask it: run tunefit-etcd, which is the same "+
				"with it (in packages, else make etcd)", d.env.Show(tuner.EnvRendezvous)))
	}
	ctx, cancel := context.WithTimeout(ctx, localenv.AnswerLimit)
	defer cancel()
	took, err := tuner.ReachEtcd(ctx, url, d.env.Get)
	if err != nil {
		return append(found, failed("see that it runs, that this node reaches it and that ETCDCTL_ variables fit",
			"%s cannot be reached: %v", wording.HideSecrets(url), err))
	}
	return append(found,
		slowness(url, took, fine("%s answers within %v", wording.HideSecrets(url), took.Round(10*time.Microsecond))))
}

// slowness warns of a store that is too slow for changes.
func slowness(name string, took time.Duration, otherwise Finding) Finding {
	if limit := agree.Shared.Settle / 3; took > limit {
		return warned("use another one", "%s needs %v for one record: changes will mostly be aborted", name,
			took.Round(time.Millisecond))
	}
	return otherwise
}

// placeFindings looks at a directory where ranks meet. private means the parent of the default rendezvous, which every
// job of this machine uses.
func (d *doctor) placeFindings(ctx context.Context, dir string, private bool) (found []Finding) {
	do := "name another directory: " + tuner.EnvRendezvous
	info, err := os.Stat(dir)
	coming := ""
	if errors.Is(err, fs.ErrNotExist) && !private {
		coming, dir = " (the job will create "+filepath.Base(dir)+" in it)", filepath.Dir(filepath.Clean(dir))
		info, err = os.Stat(dir)
		do = "make a directory in which each job makes its own: install -d -m 1777 " + cli.ShellWord(dir) +
			", as root where users share it; or " + do
	}
	switch {
	case err != nil:
		return []Finding{failed(do, "the rendezvous cannot be used: %v", err)}
	case !info.IsDir():
		return []Finding{failed(do, "the rendezvous cannot be used: %s is not a directory", dir)}
	}
	system := fileSystemOf(dir)
	if !private {
		found = append(found, d.sharingFindings(dir, coming != "")...)
		switch {
		case d.Nodes == 1:
		case system.kind == local:
			found = append(found, warned("name a directory on a file system that all nodes share",
				"%s is on %s, which is this node's alone, but the job has %d nodes: their ranks do not meet, and no "+
					"edit takes effect", dir, system, d.Nodes))
		case system.kind == unsure:
			found = append(found, noted("see that all nodes see the same files there",
				"%s is on %s, which may be this node's alone", dir, system))
		}
	}
	if scarce := system.scarce(); scarce != "" {
		found = append(found, warned("make room, or "+do, "%s is nearly full: %s", dir, scarce))
	}
	took, err := putProbe(ctx, dir)
	if err != nil {
		return append(found, failed(do, "records cannot be put into %s (%s): %v", dir, system, err))
	}
	return append(found, slowness(dir, took, fine("%s%s on %s, %v for a record", dir, coming, system,
		took.Round(10*time.Microsecond))))
}

// putProbe writes records as ranks do, in a directory of its own that no rank looks at. It removes the directory.
func putProbe(ctx context.Context, dir string) (took time.Duration, err error) {
	own, err := os.MkdirTemp(dir, ".tmp-tunefit-doctor-*")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(own)
	first, second := "first", "second"
	took, stands, err := tuner.PutTwice(ctx, own, []byte(first), []byte(second))
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.EXDEV):
		return 0, fmt.Errorf("the file system has no hard links, by which records are written once: %w", err)
	case err == nil && string(stands) != first:
		return 0, fmt.Errorf("what was written once reads %q after %q and then %q were put", stands, first, second)
	}
	return took, err
}

// sharingFindings says whether others can write into a shared directory. parent means that the job makes a directory of
// its own in it.
func (d *doctor) sharingFindings(dir string, parent bool) []Finding {
	info, err := os.Stat(dir)
	open := err == nil && info.Mode().Perm()&0o002 != 0
	if parent {
		if open && info.Mode()&os.ModeSticky == 0 {
			return []Finding{warned("chmod +t "+cli.ShellWord(dir), "every user can remove the directory that a job "+
				"makes in %s: its edits then stop, and a call that waits for one fails", dir)}
		}
		return nil
	}
	store, err := dirstore.Look(dir)
	if err == nil {
		err = store.Check()
	}
	if !errors.Is(err, dirstore.ErrForeign) {
		return nil // putProbe says why it cannot be used
	}
	above := filepath.Dir(filepath.Clean(dir))
	if open {
		above = dir
	}
	do := "name a directory that the job makes for itself: " + tuner.EnvRendezvous + "=" + filepath.Join(above, "JOB")
	if d.env.Get(tuner.EnvTrust) == "1" {
		return []Finding{warned(do, "%v; with %s whoever can write there decides for the job", err,
			d.env.Show(tuner.EnvTrust))}
	}
	return []Finding{failed(do+", or set "+tuner.EnvTrust+"=1 if whoever can write there may decide for the job",
		"the rendezvous is refused, and communicator creation fails: %v", err)}
}

// scarce says whether there is too little room or too few inodes for the records of a change. These are a few versions
// of policy and model, and a handful of small files for each rank. "": there is enough.
func (s fileSystem) scarce() string {
	const bytes, files = 16 << 20, 4096
	switch {
	case s.freeBytes < bytes:
		return nccl.FormatBytes(s.freeBytes) + " left"
	case s.files > 0 && s.freeFiles < files:
		return wording.Plural(int(s.freeFiles), "inode") + " left"
	}
	return ""
}
