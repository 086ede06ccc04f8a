package tuner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/dirstore"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
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
	own, err := dirstore.PrivateDirs(dirstore.Shm, os.Getuid())
	dirs := own
	if err == nil && os.Getuid() == 0 {
		dirs, err = dirstore.PrivateDirs(dirstore.Shm, -1)
	}
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

// variables lists the environment variables of the plugin.
var variables = []string{EnvPlugin, EnvConfigFile, EnvModelFile, EnvPasses, EnvStrict, EnvLog, EnvReload, EnvRendezvous,
	EnvStallLimit, EnvCompare, EnvCanary, EnvLearn, EnvBudget, EnvRecord, EnvMetrics, EnvTrust, EnvFilesTrust,
	EnvDeterministic, detect.TunerFileVariable}

// EnvPlugin is the variable by which NCCL loads the plugin. It begins like the plugin's own.
const EnvPlugin = prefix + "PLUGIN"

const prefix = "NCCL_TUNER_"

// MeantVariable says what to do about a variable that begins like those of the plugin and is none of them; "" for any
// other variable.
func MeantVariable(name string) string {
	rest, ours := strings.CutPrefix(name, prefix)
	if !ours || slices.Contains(variables, name) {
		return ""
	}
	var begins string
	var known []string
	for _, v := range variables {
		v = strings.TrimPrefix(v, prefix)
		known = append(known, strings.ToLower(v))
		if begins == "" && strings.HasPrefix(v, rest) {
			begins = v
		}
	}
	if meant := cmp.Or(begins, strings.ToUpper(wording.Nearest(rest, known))); meant != "" && rest != "" {
		return "did you mean " + prefix + meant + "?"
	}
	return "the tuner knows " + strings.Join(variables, ", ")
}

// CheckSettings returns one line for each variable's value that the plugin would not understand.
func CheckSettings(getenv func(string) string) (problems []string) {
	readSettings(getenv, telemetry.Log{Emit: func(_ telemetry.Level, _ string, _ int, text string) {
		problems = append(problems, strings.TrimPrefix(text, "TUNER/Go: "))
	}})
	return problems
}

// IsEtcd reports whether a rendezvous is an etcd, not a directory.
func IsEtcd(rendezvous string) bool {
	return strings.HasPrefix(rendezvous, "etcd://") || strings.HasPrefix(rendezvous, "etcds://")
}

// ReachEtcd asks the etcd of a rendezvous for a record that does not exist, and returns how long that took.
func ReachEtcd(ctx context.Context, rendezvous string, getenv func(string) string) (took time.Duration, err error) {
	store, end, err := openEtcd(rendezvous, getenv)
	if err != nil {
		return 0, err
	}
	defer end()
	start := time.Now()
	_, _, err = store.Get(ctx, "doctor")
	return time.Since(start), err
}

// PutTwice puts a record into an empty directory twice, as ranks do. It returns how long one put takes and
// which record stands afterwards. That is the first one if the file system does what agreement needs.
func PutTwice(ctx context.Context, dir string, first, second []byte) (took time.Duration, stands []byte, err error) {
	store, err := dirstore.Open(dir, identity.New())
	if err != nil {
		return 0, nil, err
	}
	defer store.Close()
	start := time.Now()
	if _, err := store.PutOnce(ctx, "doctor/record", first); err != nil {
		return 0, nil, err
	}
	took = time.Since(start)
	stands, err = store.PutOnce(ctx, "doctor/record", second)
	return took, stands, err
}
