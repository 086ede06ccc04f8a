package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
)

func (d *doctor) examineTopology(ctx context.Context) []Finding {
	m := d.machine()
	f := d.files()
	needed := policy.NeedsTopology(f.compiled, f.fitted)
	took := m.Took.Round(time.Millisecond)
	var syntax *topo.SyntaxError
	switch {
	case errors.As(m.Err, &syntax):
		return []Finding{failed("write it as NCCL does: tunefit topo --dump, or NCCL_TOPO_DUMP_FILE",
			"the topology file is refused, by NCCL's own reader, too: %v", m.Err)}
	case m.Err == nil:
		return []Finding{fine("%s (%s, %v); fingerprint %s", m.Here.Summary, m.From, took, m.Here.Fingerprint)}
	case errors.Is(m.Err, localenv.ErrSlowDriver) && needed:
		return []Finding{warned("start nvidia-persistenced, or name a topology file: "+detect.TunerFileVariable,
			"%v within %v; the first communicator waits for it", m.Err, took)}
	case errors.Is(m.Err, localenv.ErrSlowDriver):
		return []Finding{noted("", "%v within %v; nothing here needs it", m.Err, took)}
	case needed:
		return []Finding{warned("run tunefit topo, or name a topology file: "+detect.TunerFileVariable,
			"the machine is not known, so rows with conditions on topo.* never match and a model of a machine "+
				"abstains: %v", m.Err)}
	}
	if none := (*detect.NoGPUError)(nil); errors.As(m.Err, &none) {
		if none.OnPCI > 0 {
			return []Finding{warned("look with nvidia-smi",
				"%d NVIDIA GPUs are on the PCI bus, but the driver does not show them: %v", none.OnPCI, none.Cause)}
		}
		if d.Machine {
			if _, err := d.env.Probe(ctx, localenv.LibRCCL); err != nil { // else its GPUs may be AMD's
				return []Finding{warned("look with nvidia-smi, and at what the allocation asks for, as --gpus-per-node",
					"no NVIDIA GPU on this node: NCCL has nothing to run on")}
			}
		}
		return []Finding{noted("", "no NVIDIA GPU on this node; nothing here needs the topology")}
	}
	return []Finding{noted("", "the machine is not known; nothing here needs it: %v", m.Err)}
}
