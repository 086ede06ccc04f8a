package cli

import (
	"bytes"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
)

// Env is what commands take from their environment. Tests replace parts of it.
type Env struct {
	*Inputs
	Installed func() nccl.Version // release of NCCL on this machine; 0: none
	Tune      func(*topo.Document, channels.TuneOptions, ...int) ([]*channels.CommTuning, error)
}

// ReadTopology reads a topology file.
func (e *Env) ReadTopology(name string) (*topo.Document, error) {
	text, err := e.Text(name, KindTopology)
	if err != nil {
		return nil, err
	}
	return topo.Read(name, bytes.NewReader(text))
}
