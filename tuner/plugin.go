// Package tuner is the life of communicators in an NCCL process: their init, their decisions,
// the edits of their policy, and their end.
//
// A Plugin is what the process's communicators share; there is one for the life of a process.
// Its Open reads the settings when NCCL creates a communicator, joins the ranks' agreement and
// returns a Comm. A Comm lives until Close, which NCCL's destruction of the communicator calls.
// It owns its part in the agreement, its metrics and the comparison that it may run.
//
// The version in force has one owner. Where the ranks agree on versions, the owner is the Comm's
// agree.Member. Elsewhere the Comm has one version for good. The snapshot in force, its counts and the
// decisions in C's cache all follow from that version.
//
// Three packages do parts of the work: tuner/policyfile makes versions from files, tuner/trial compares
// versions, and tuner/telemetry reports. This package knows nothing of C. The ABI around it is package main
// in tuner/plugin.
//
// docs/dev/ARCHITECTURE.md follows a decision and an edit through it, docs/LIVE.md describes
// edits for users, docs/dev/NCCL.md what NCCL does with a tuner.
package tuner

import (
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/dirstore"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// A Plugin is what the communicators of a process share. There is one for the life of a process.
// Any goroutine may call its methods.
type Plugin struct {
	getenv   func(string) string // "" for what is not set
	clock    agree.Clock
	shm      string // where processes of this machine meet
	timeouts safefile.Timeouts
	loader   *policyfile.Loader
	peers    trial.Peers

	exporter *telemetry.Exporter
	recorder *telemetry.Recorder

	logged sync.Map // the texts that said why the policy cannot change during the run

	mu         sync.Mutex // held for moments only
	rendezvous map[rendezvousKey]*rendezvous
}

// New returns what a process needs to open communicators. Each one's init calls getenv anew, because NCCL adds the
// settings of its own files late. It must be safe for concurrent use, because goroutines call it later, too.
func New(getenv func(string) string) *Plugin {
	p := &Plugin{
		getenv:     getenv,
		clock:      agree.RealTime(),
		shm:        dirstore.Shm,
		rendezvous: map[rendezvousKey]*rendezvous{},
	}
	p.exporter = telemetry.NewExporter(EnvMetrics, Release, &p.timeouts, getenv)
	p.recorder = telemetry.NewRecorder(EnvRecord, &p.timeouts)
	p.loader = policyfile.NewLoader(getenv, &p.timeouts, p.exporter.FilesRead)
	return p
}

// Record begins to record a communicator. It returns nil unless NCCL_TUNER_RECORD names a directory that can
// be written to.
func (p *Plugin) Record(c record.CommRecord, read telemetry.ReadCounts, log telemetry.Log) *telemetry.Recording {
	return p.recorder.Begin(p.getenv(EnvRecord), c, read, log)
}

// logWhyNotLive logs once why the policy cannot change during the run, as a warning if the user has asked for changes
// or can mend it. Ranks without a place to meet do not notice either that their files differ.
func (p *Plugin) logWhyNotLive(why notLiveReason, s settings, log telemetry.Log) {
	if why.text == "" || log.Emit == nil {
		return
	}
	if _, said := p.logged.LoadOrStore(why.text, true); said {
		return
	}
	emit := log.Infof
	if s.mustReload || why.label == noRendezvous {
		emit = log.Warnf
	}
	emit("the policy cannot change during the run: %s", why.text)
}
