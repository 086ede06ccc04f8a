package localenv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
)

// AnswerLimit is how long the driver, or an etcd, may take to answer. doctor has to report within three seconds.
const AnswerLimit = 1800 * time.Millisecond

// FindingMachine is policyfile.FindMachine, or a test's.
type FindingMachine func(getenv func(string) string) (*model.Machine, detect.Source, error)

// Machine is this machine as the tuner would see it.
type Machine struct {
	Here *model.Machine // nil: not known
	From detect.Source
	Err  error
	Took time.Duration
}

// ErrSlowDriver is the error after AnswerLimit. The driver's library cannot be stopped.
var ErrSlowDriver = errors.New("NVIDIA's driver has not answered")

// ThisMachine is the machine as the tuner would see it in a process with these variables.
func ThisMachine(getenv func(string) string) Machine {
	return FindMachine(context.Background(), policyfile.FindMachine, getenv)
}

// FindMachine is ThisMachine by find. It waits for the driver for AnswerLimit at most.
func FindMachine(ctx context.Context, find FindingMachine, getenv func(string) string) Machine {
	ctx, cancel := context.WithTimeout(ctx, AnswerLimit)
	defer cancel()
	start := time.Now()
	done := make(chan Machine, 1)
	go func() {
		var m Machine
		defer func() {
			if p := recover(); p != nil {
				m.Here, m.Err = nil, fmt.Errorf("a defect in reading it: %v", p)
			}
			m.Took = time.Since(start)
			done <- m
		}()
		m.Here, m.From, m.Err = find(getenv)
	}()
	select {
	case m := <-done:
		return m
	case <-ctx.Done():
		return Machine{Err: ErrSlowDriver, Took: time.Since(start)}
	}
}
