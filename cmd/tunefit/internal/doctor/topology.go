package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
)

// findingMachine is tuner.FindMachine, or plays it.
type findingMachine func(getenv func(string) string) (*model.Machine, detect.Source, error)

// machineFound is what the tuner would take this machine for.
type machineFound struct {
	here *model.Machine // nil: not known
	from detect.Source
	err  error
	took time.Duration
}

// errSlowDriver: whoever asks gets an answer, the driver's library cannot be stopped.
var errSlowDriver = errors.New("NVIDIA's driver has not answered")

// findMachine does not wait for the driver longer than answerLimit.
func findMachine(ctx context.Context, detect findingMachine, getenv func(string) string) machineFound {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	start := time.Now()
	done := make(chan machineFound, 1)
	go func() {
		var m machineFound
		defer func() {
			if p := recover(); p != nil {
				m.here, m.err = nil, fmt.Errorf("a defect in reading it: %v", p)
			}
			m.took = time.Since(start)
			done <- m
		}()
		m.here, m.from, m.err = detect(getenv)
	}()
	select {
	case m := <-done:
		return m
	case <-ctx.Done():
		return machineFound{err: errSlowDriver, took: time.Since(start)}
	}
}

func (d *doctor) examineTopology(context.Context) []finding {
	m := d.machine()
	f := d.files()
	needed := policy.NeedsTopology(f.compiled, f.fitted)
	took := m.took.Round(time.Millisecond)
	switch {
	case m.err == nil:
		return []finding{fine("%s (%s, %v); fingerprint %s", m.here.Summary, m.from, took, m.here.Fingerprint)}
	case errors.Is(m.err, errSlowDriver) && needed:
		return []finding{warned("start nvidia-persistenced, or name a topology file: "+detect.TunerFileVariable, "%v within %v; the first communicator waits for it", m.err, took)}
	case errors.Is(m.err, errSlowDriver):
		return []finding{noted("", "%v within %v; nothing here needs it", m.err, took)}
	case needed:
		return []finding{warned("run tunefit topo, or name a topology file: "+detect.TunerFileVariable,
			"the machine is not known, so rows with conditions on topo.* never match and a model of a machine is silent: %v", m.err)}
	}
	if none := (*detect.NoGPUError)(nil); errors.As(m.err, &none) {
		if none.OnPCI > 0 {
			return []finding{warned("look with nvidia-smi", "%d NVIDIA GPUs are on the PCI bus, but the driver does not show them: %v", none.OnPCI, none.Cause)}
		}
		return []finding{noted("", "no NVIDIA GPU on this node; nothing here needs the topology")}
	}
	return []finding{noted("", "the machine is not known; nothing here needs it: %v", m.err)}
}
