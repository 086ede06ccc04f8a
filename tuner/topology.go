package tuner

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
)

// machine is what this process runs on. To find out can cost a second, so only a
// condition or a model that needs it asks, and only once in a process: the machine
// does not change under it.
//
// Each rank finds out for itself. Ranks on nodes that are not alike may so decide
// differently; policy.Engine's digest tells them apart.
var machine = &machineCache{find: FindMachine}

type machineCache struct {
	find  func(getenv func(string) string) (*model.Machine, detect.Source, error)
	once  sync.Once
	here  *model.Machine // nil: not known
	from  detect.Source
	err   error
	noted sync.Once
}

// machineLimit bounds the wait for the topology's files and for NVIDIA's driver.
const machineLimit = 30 * time.Second

// get returns the machine, or nil where it is not known, and says what it is. It is an
// error if something hangs.
func (c *machineCache) get(getenv func(string) string, log Log) (*model.Machine, error) {
	c.once.Do(func() {
		defer func() {
			if p := recover(); p != nil {
				c.here, c.err = nil, fmt.Errorf("a defect in reading it: %v", p)
			}
		}()
		type found struct {
			here *model.Machine
			from detect.Source
		}
		var f found
		f, c.err = ask(&unanswered, "topology", machineLimit, func() (f found, err error) {
			f.here, f.from, err = c.find(getenv)
			return f, err
		})
		c.here, c.from = f.here, f.from
	})
	if errors.As(c.err, new(noAnswer)) {
		return nil, fmt.Errorf("the topology of this machine: %w; %s", c.err, otherRanks)
	}
	sayOnce(&c.noted, log, func() {
		if c.err != nil {
			log.Warnf("the topology of this machine is not known: %v", c.err)
			return
		}
		log.Infof("topology (%s): %s, fingerprint %s", c.from, c.here.Summary, c.here.Fingerprint)
	})
	return c.here, nil
}

// FindMachine looks where NCCL does, and before that where NCCL_TUNER_TOPO_FILE says.
// It can cost a second.
func FindMachine(getenv func(string) string) (*model.Machine, detect.Source, error) {
	doc, from, err := detect.Load(getenv, "/", detect.NVMLLibrary{})
	if err != nil {
		return nil, from, err
	}
	sys, err := topo.Build(doc, topo.BuildOptions{WholeMLOPart: getenv("NCCL_TOPO_SPLIT_MLOPART") == "0"})
	if err != nil {
		return nil, from, err
	}
	here := &model.Machine{Fingerprint: sys.Fingerprint()}
	if here.Summary, err = sys.Summarize(topo.SettingsFromEnv(getenv)); err != nil {
		return nil, from, fmt.Errorf("%s: %w", doc.File, err)
	}
	return here, from, nil
}
