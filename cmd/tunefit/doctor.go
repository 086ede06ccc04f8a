package main

import (
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/agree/dirstore"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/plugin/host"
)

// An examination is over after doctorLimit, whatever hangs; the driver and an etcd get
// less, so that what waits for them can still be told.
const (
	doctorLimit = 2500 * time.Millisecond
	answerLimit = 1800 * time.Millisecond
)

func doctorCommand() *cobra.Command {
	var asJSON bool
	var d doctor
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say whether a job's environment is sound",
		Long: `Say whether a job would find the tuner, NCCL, its files and its rendezvous in this
environment: what is wrong first, with what to do, then what is fine. Run it where the
job runs and as the job is run (in its container, through its launcher, as its user),
for the environment counts, and on each node; it takes at most three seconds, and
leaves nothing behind.

The files' version is a digest of their meaning: it must be the same on all nodes.

Exit code: 0 if there is nothing but notes, 1 with warnings or errors, 2 if something
could not be examined.`,
		Example: `  tunefit doctor
  srun -N 4 tunefit doctor --nodes 4
  tunefit doctor --nccl /opt/nccl/lib/libnccl.so.2`,
		Args: cli.AtMost(0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.nodes < 1 {
				return cli.Usagef("--nodes %d: a job has at least 1", d.nodes)
			}
			d.onThisMachine()
			findings := d.examine(cmd.Context(), examinations)
			var err error
			if asJSON {
				err = cli.WriteJSON(cmd.OutOrStdout(), findings)
			} else {
				err = writeDiagnosis(cmd.OutOrStdout(), findings)
			}
			if err != nil {
				return err
			}
			return cli.ExitWith(diagnosisCode(findings))
		},
	}
	d.own.register(cmd)
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print JSON, one object per finding")
	f.IntVar(&d.nodes, "nodes", 1, "nodes that the job has")
	f.StringVar(&d.nccl, "nccl", "", "libnccl.so.2 that the job uses (default those found)")
	f.Lookup("plugin").Usage = "tuner library of this tunefit, to compare with (default " + libraryName + " beside tunefit or in ../lib)"
	return cmd
}

// doctor is one examination of an environment. What is not the environment is a field,
// for tests.
type doctor struct {
	own   pluginFlags // this tunefit's library
	nccl  string      // --nccl
	nodes int

	env     *environment
	home    string
	libDirs []string // where the dynamic loader looks after LD_LIBRARY_PATH
	shm     string
	proc    string
	cgroups string
	detect  findingMachine

	// What several examinations ask for.
	machine func() machineFound
	plugin  func() pluginFound
	files   func() filesFound
}

// examination is one thing to look at. It may be given up when ctx ends.
type examination struct {
	name string
	run  func(*doctor, context.Context) []finding
}

// examinations are in the order in which a job would come by them.
var examinations = []examination{
	{"plugin", (*doctor).examinePlugin},
	{"nccl", (*doctor).examineNCCL},
	{"environment", (*doctor).examineEnvironment},
	{"files", (*doctor).examineFiles},
	{"topology", (*doctor).examineTopology},
	{"rendezvous", (*doctor).examineRendezvous},
	{"limits", (*doctor).examineLimits},
	{"jobs", (*doctor).examineJobs},
}

// onThisMachine fills in where things are.
func (d *doctor) onThisMachine() {
	if u, err := user.Current(); err == nil {
		d.home = u.HomeDir
	}
	d.env = readEnvironment(os.Environ(), d.home, "/etc/nccl.conf")
	d.libDirs = []string{"/lib/*-linux-gnu", "/usr/lib/*-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib", "/usr/local/lib64"}
	d.shm = dirstore.Shm
	d.proc = "/proc"
	d.cgroups = "/sys/fs/cgroup"
	d.detect = tuner.FindMachine
}

// examine runs all examinations at once and returns their findings in order. One that
// does not end in time is a finding itself.
func (d *doctor) examine(parent context.Context, all []examination) []finding {
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, doctorLimit)
	defer cancel()
	d.machine = asked(func() machineFound { return findMachine(ctx, d.detect, d.env.get) })
	d.plugin = asked(func() pluginFound { return d.findPlugin(ctx) })
	d.files = asked(d.readFiles)
	results := make([]chan []finding, len(all))
	for i, e := range all {
		results[i] = make(chan []finding, 1)
		go func() { results[i] <- e.run(d, ctx) }()
	}
	var findings []finding
	for i, e := range all {
		var of []finding
		select {
		case of = <-results[i]:
		case <-ctx.Done():
			// What has ended at the last moment counts.
			select {
			case of = <-results[i]:
			case <-time.After(50 * time.Millisecond):
				late := warned("look for a file system that hangs, or for what keeps this node busy", "not known, for it took longer than %v", doctorLimit)
				late.Unknown = true
				of = []finding{late}
			}
		}
		for j := range of {
			of[j].Check = e.name
		}
		findings = append(findings, of...)
	}
	return findings
}

// asked returns what finds something out once, in the background, for all who ask.
func asked[T any](find func() T) func() T {
	var once sync.Once
	var found T
	done := make(chan struct{})
	return func() T {
		once.Do(func() {
			go func() {
				defer close(done)
				found = find()
			}()
		})
		<-done
		return found
	}
}

// ownLibrary is the library that was built with this tunefit; "" if it is not there.
func (d *doctor) ownLibrary() string {
	path, err := d.own.find()
	if err != nil {
		return ""
	}
	if path, err = filepath.Abs(path); err != nil {
		return ""
	}
	return path
}

// probe looks at a library as a process of the job would see it, without what the
// policy's variables would make of that.
func (d *doctor) probe(ctx context.Context, name string) (*host.Library, error) {
	return host.Probe(ctx, name, slices.DeleteFunc(slices.Clone(d.env.process), isTunerVariable))
}

// notLoaded returns the dynamic loader's words, or the error.
func notLoaded(err error) string {
	if refused := (*host.NotLoadedError)(nil); errors.As(err, &refused) {
		return refused.Reason
	}
	return err.Error()
}
