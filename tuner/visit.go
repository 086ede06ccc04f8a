package tuner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/dirstore"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
)

// RendezvousView is a rendezvous as seen by a tool that is no rank.
type RendezvousView struct {
	Name    string
	Records agree.Records
	// Directory holds the records, if they are files. Private marks the default rendezvous, which its last
	// user removes. Own marks one that belongs to this user.
	Directory    *dirstore.Store
	Private, Own bool
}

// VisitEtcd finds the rendezvous at a prefix of an etcd, and one and two levels below, as Visit does in directories.
type VisitEtcd func(context.Context) (places []RendezvousView, unseen []error, err error)

// Visit finds the rendezvous in a directory that NCCL_TUNER_RENDEZVOUS names, and in the folders below it.
// Without a name it finds the default ones of this machine: those of this user, or for root those of all
// users. It creates nothing. A named directory that does not exist is an error. unseen lists the places that
// Visit could not look at, where a rendezvous may be.
func Visit(name string) (places []RendezvousView, unseen []error, err error) {
	if name == "" {
		places, err = visitPrivate()
		return places, nil, err
	}
	dirs, unseen := dirstore.Below(name)
	if len(dirs) == 0 {
		dirs = []string{name} // nobody has used it yet
	}
	for _, dir := range dirs {
		s, err := dirstore.Look(dir)
		switch missing := errors.Is(err, fs.ErrNotExist); {
		case missing && dir == name:
			return nil, nil,
				fmt.Errorf("there is no rendezvous %s: no job has used it yet, or it is another machine's", name)
		case missing: // its job has ended
		case err != nil && dir == name:
			return nil, nil, fmt.Errorf("%s is no rendezvous: %w", name, safefile.Reason(err))
		case err != nil:
			unseen = append(unseen, err)
		default:
			places = append(places, RendezvousView{Name: dir, Records: s, Directory: s})
		}
	}
	return places, unseen, nil
}

func visitPrivate() (places []RendezvousView, err error) {
	uid := os.Getuid()
	if uid == 0 {
		uid = -1
	}
	dirs, err := dirstore.PrivateDirs(dirstore.Shm, uid)
	if err != nil {
		return nil, err
	}
	own, err := dirstore.PrivateDirs(dirstore.Shm, os.Getuid())
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if !strings.Contains(filepath.Base(dir), "-"+privateStore+".") {
			continue // the mirror of a shared one
		}
		s, err := dirstore.Look(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its last user is gone
		} else if err != nil {
			return nil, err
		}
		places = append(places, RendezvousView{Name: dir, Records: s, Directory: s, Private: true,
			Own: slices.Contains(own, dir)})
	}
	return places, nil
}
