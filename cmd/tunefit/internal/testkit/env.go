// Package testkit runs command lines of tunefit for tests.
package testkit

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/configs"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
)

// Env is where commands of tests run: NCCL's reference release is installed, whatever this machine has. It remembers
// what NCCL would find on the machine that commands assume, since hundreds of tests ask for that.
var Env = cli.Env{Inputs: new(cli.Inputs), Installed: func() nccl.Version { return nccl.Reference },
	Tune: tuneOnce()}

func tuneOnce() func(*topo.Document, channels.TuneOptions, ...int) ([]*channels.CommTuning, error) {
	type question struct {
		options channels.TuneOptions
		hosts   string
	}
	found := map[question][]*channels.CommTuning{}
	return func(doc *topo.Document, options channels.TuneOptions, hosts ...int) ([]*channels.CommTuning, error) {
		q := question{options, fmt.Sprint(hosts)}
		if comms, ok := found[q]; ok && doc.File == configs.DGXH100File {
			return comms, nil
		}
		comms, err := channels.Tune(doc, options, hosts...)
		if err == nil && doc.File == configs.DGXH100File {
			found[q] = comms
		}
		return comms, err
	}
}
