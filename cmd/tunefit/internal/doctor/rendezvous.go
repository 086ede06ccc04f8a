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

func (d *doctor) examineRendezvous(ctx context.Context, r *report) {
	name, reload := d.env.Get(tuner.EnvRendezvous), d.env.Show(tuner.EnvReload)
	switch mode := reloadMode(d.env); {
	case isOn(d.env, tuner.EnvDeterministic):
		r.note("", "not used: %s, a process stays with what it read first; do not edit while communicators are being "+
			"created", d.env.Show(tuner.EnvDeterministic))
	case mode == "off":
		r.note("", "not used: %s, a process stays with what it read first", reload)
	case mode == "new":
		r.note("", "not used: with %s an edit takes effect in communicators created later only; do not edit while "+
			"some are being created", reload)
	case name == "" && d.Nodes > 1:
		r.warn("set "+tuner.EnvRendezvous+" to a directory that all nodes share, or to etcd://HOST:PORT/PREFIX",
			"%s is not set, and the job has %d nodes: edits do not take effect during the run, and an edit while "+
				"communicators are created can hang the job", tuner.EnvRendezvous, d.Nodes)
	case name == "":
		d.examinePlace(ctx, r, d.shm, true)
	case tuner.IsEtcd(name):
		d.examineEtcd(ctx, r, name)
	case strings.Contains(name, "://"):
		r.fail("name a directory, or etcd://HOST:PORT/PREFIX", "%s is not understood", d.env.Show(tuner.EnvRendezvous))
	default:
		d.relative(r, tuner.EnvRendezvous)
		d.examinePlace(ctx, r, name, false)
	}
}

func (d *doctor) examineEtcd(ctx context.Context, r *report, url string) {
	if p := d.plugin(); p.ours && !p.etcd {
		r.fail("load libnccl-tuner-go-etcd.so instead (in packages, else make etcd)",
			"%s: %s is built without etcd", d.env.Show(tuner.EnvRendezvous), p.path)
	}
	if !tuner.HasEtcd {
		r.unknown("%s: this tunefit is built without etcd and cannot ask it: run tunefit-etcd, which is the same "+
			"with it (in packages, else make etcd)", d.env.Show(tuner.EnvRendezvous))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, localenv.AnswerLimit)
	defer cancel()
	shown := wording.HideSecrets(url)
	took, err := tuner.ReachEtcd(ctx, url, d.env.Get)
	if err != nil {
		r.fail("see that it runs, that this node reaches it and that ETCDCTL_ variables fit",
			"%s cannot be reached: %v", shown, err)
	} else if !slow(r, url, took) {
		r.fine("%s answers within %v", shown, took.Round(10*time.Microsecond))
	}
}

// slow warns of a store that is too slow for changes.
func slow(r *report, name string, took time.Duration) bool {
	if took <= agree.Shared.Settle/3 {
		return false
	}
	r.warn("use another one", "%s needs %v for one record: changes will mostly be aborted", name,
		took.Round(time.Millisecond))
	return true
}

// examinePlace looks at a directory where ranks meet. private means the parent of the default rendezvous, which every
// job of this machine uses.
func (d *doctor) examinePlace(ctx context.Context, r *report, dir string, private bool) {
	do := "name another directory: " + tuner.EnvRendezvous
	info, err := os.Stat(dir)
	coming := ""
	if errors.Is(err, fs.ErrNotExist) && !private {
		coming, dir = " (the job will create "+filepath.Base(dir)+" in it)", filepath.Dir(filepath.Clean(dir))
		info, err = os.Stat(dir)
		do = "make a directory in which each job makes its own: install -d -m 1777 " + cli.ShellWord(dir) +
			", as root where users share it; or " + do
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	if err != nil {
		r.fail(do, "the rendezvous cannot be used: %v", err)
		return
	}
	system := fileSystemOf(dir)
	if !private {
		d.sharing(r, dir, coming != "")
		switch {
		case d.Nodes == 1:
		case system.kind == local:
			r.warn("name a directory on a file system that all nodes share",
				"%s is on %s, which is this node's alone, but the job has %d nodes: their ranks do not meet, and no "+
					"edit takes effect", dir, system, d.Nodes)
		case system.kind == unsure:
			r.note("see that all nodes see the same files there", "%s is on %s, which may be this node's alone", dir,
				system)
		}
	}
	system.scarce(r, dir, "make room, or "+do)
	took, err := putProbe(ctx, dir)
	if err != nil {
		r.fail(do, "records cannot be put into %s (%s): %v", dir, system, err)
	} else if !slow(r, dir, took) {
		r.fine("%s%s on %s, %v for a record", dir, coming, system, took.Round(10*time.Microsecond))
	}
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

// sharing says whether others can write into a shared directory. parent means that the job makes a directory of its
// own in it.
func (d *doctor) sharing(r *report, dir string, parent bool) {
	info, err := os.Stat(dir)
	open := err == nil && info.Mode().Perm()&0o002 != 0
	if parent {
		if open && info.Mode()&os.ModeSticky == 0 {
			r.warn("chmod +t "+cli.ShellWord(dir), "every user can remove the directory that a job makes in %s: its "+
				"edits then stop, and a call that waits for one fails", dir)
		}
		return
	}
	store, err := dirstore.Look(dir)
	if err == nil {
		err = store.Check()
	}
	if !errors.Is(err, dirstore.ErrForeign) {
		return // putProbe says why it cannot be used
	}
	above := filepath.Dir(filepath.Clean(dir))
	if open {
		above = dir
	}
	do := "name a directory that the job makes for itself: " + tuner.EnvRendezvous + "=" + filepath.Join(above, "JOB")
	if d.env.Get(tuner.EnvTrust) == "1" {
		r.warn(do, "%v; with %s whoever can write there decides for the job", err, d.env.Show(tuner.EnvTrust))
		return
	}
	r.fail(do+", or set "+tuner.EnvTrust+"=1 if whoever can write there may decide for the job",
		"the rendezvous is refused, and communicator creation fails: %v", err)
}
