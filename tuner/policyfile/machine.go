package policyfile

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// machine is the topology of the node that a process runs on. A process detects it at most once, because that
// can take a second, and only for a condition or a model that needs it.
//
// Each rank detects its own node, and ranks on different machines would decide differently. So the topology is part
// of policy.Engine's digest, and ranks whose digests differ refuse the version.
type machine struct {
	once  sync.Once
	here  *topo.Machine // nil: not known
	from  detect.Source // where its description was read
	err   error         // why it is not known
	noted sync.Once     // by logMachine
}

// machineLimit bounds the wait for the topology's files and for NVIDIA's driver.
const machineLimit = 30 * time.Second

// findMachine returns the machine, or nil where it is not known. The error is for a read that hangs: on other ranks
// it may have succeeded.
func (l *Loader) findMachine() (*topo.Machine, error) {
	m := &l.machine
	m.once.Do(func() {
		defer func() {
			if p := recover(); p != nil {
				m.here, m.err = nil, fmt.Errorf("a defect in reading it: %v", p)
			}
		}()
		type found struct {
			here *topo.Machine
			from detect.Source
		}
		var f found
		f, m.err = safefile.Within(l.timeouts, "topology", machineLimit, func() (f found, err error) {
			f.here, f.from, err = l.Find(l.getenv)
			return f, err
		})
		m.here, m.from = f.here, f.from
	})
	if errors.As(m.err, new(safefile.NoAnswer)) {
		return nil, fmt.Errorf("the topology of this machine: %w; %s", m.err, otherRanks)
	}
	return m.here, nil
}

// Fingerprint returns the fingerprint of the machine; "" where it is not known.
func (l *Loader) Fingerprint() string {
	if here, err := l.findMachine(); err == nil && here != nil {
		return string(here.Fingerprint)
	}
	return ""
}

// logMachine logs once what was found.
func (l *Loader) logMachine(log telemetry.Log) {
	m := &l.machine
	log.Once(&m.noted, func() {
		if m.err != nil {
			log.Warnf("the topology of this machine is not known: %v", m.err)
			return
		}
		log.Infof("topology (%s): %s, fingerprint %s", m.from, m.here.Summary, m.here.Fingerprint)
	})
}

// FindMachine detects the machine's topology. It looks at NCCL_TUNER_TOPO_FILE first, then where NCCL looks.
// It can take a second.
func FindMachine(getenv func(string) string) (*topo.Machine, detect.Source, error) {
	doc, from, err := detect.Load(getenv, "/", detect.NVMLLibrary{})
	if err != nil {
		return nil, from, err
	}
	here, err := MachineOf(doc, getenv)
	return here, from, err
}

// MachineOf is the machine that a topology describes, under NCCL's variables.
func MachineOf(doc *topo.Document, getenv func(string) string) (*topo.Machine, error) {
	sys, err := topo.Build(doc, topo.SettingsFromEnv(getenv))
	if err != nil {
		return nil, err
	}
	here := &topo.Machine{Fingerprint: sys.Fingerprint()}
	if here.Summary, err = sys.Summarize(); err != nil {
		return nil, fmt.Errorf("%s: %w", doc.File, err)
	}
	return here, nil
}
