package when

import (
	"maps"
	"reflect"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Env holds the value of each name that a condition may use: a float64, a bool or a string. Names whose values are
// not known are left out.
type Env map[string]any

// EnvOf returns what is the same for all calls of a communicator. nvlDomains and release may be 0, name "" and machine
// nil: not known.
func EnvOf(c nccl.Comm, nvlDomains int, release nccl.Version, name string, machine *topo.Machine) Env {
	e := Env{"nodes": float64(c.Nodes), "ranks": float64(c.Ranks)}
	if c.Ranks%c.Nodes == 0 {
		e[string(RanksPerNode)] = float64(c.Ranks / c.Nodes)
	}
	if nvlDomains != 0 {
		e[string(NVLDomains)] = float64(nvlDomains)
	}
	if release != 0 {
		e[string(NCCL)] = float64(release)
	}
	if name != "" {
		e[string(Name)] = name
	}
	if machine != nil {
		e[string(Fingerprint)] = string(machine.Fingerprint)
		summary := reflect.ValueOf(machine.Summary)
		for i := range summary.NumField() {
			name, value := string(Topology)+summary.Type().Field(i).Tag.Get("expr"), summary.Field(i)
			if e[name] = value.Interface(); value.CanInt() {
				e[name] = float64(value.Int())
			}
		}
	}
	return e
}

// SetCall adds what one call has. e must come from EnvOf.
func (e Env) SetCall(call nccl.Call, pipeOps int) {
	e["coll"] = call.Coll.String()
	e["bytes"] = float64(call.Bytes)
	e["bytes_per_rank"] = float64(call.Bytes / uint64(e["ranks"].(float64)))
	e["pipe_ops"] = float64(pipeOps)
}

// ofComm has the names that are the same for all calls of a communicator, names those of calls, too. Their values have
// no meaning but their types.
var (
	ofComm = EnvOf(nccl.Comm{Nodes: 1, Ranks: 1}, 1, nccl.Reference, "name", &topo.Machine{})
	names  = func() Env {
		e := maps.Clone(ofComm)
		e.SetCall(nccl.Call{}, 0)
		return e
	}()
)

// texts has, by name, what the text can be.
var texts = func() map[string][]string {
	all := map[string][]string{"coll": nccl.Colls.Known}
	for name, known := range topo.SummaryTexts() {
		all[string(Topology)+name] = known
	}
	return all
}()
