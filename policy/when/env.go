package when

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

const topoPrefix = "topo."

// Env holds the value of each name that a condition may use: a float64, a bool or a string. Names
// whose values are not known are left out.
type Env map[string]any

// EnvOf returns what is the same for all calls of a communicator. machine may be nil: not known.
func EnvOf(c nccl.Comm, nvlDomains int, machine *topo.Summary) Env {
	e := Env{"nodes": float64(c.Nodes), "ranks": float64(c.Ranks), "nvl_domains": float64(nvlDomains)}
	if c.Ranks%c.Nodes == 0 {
		e[string(RanksPerNode)] = float64(c.Ranks / c.Nodes)
	}
	if machine == nil {
		return e
	}
	summary := reflect.ValueOf(*machine)
	for i := range summary.NumField() {
		name, value := topoPrefix+summary.Type().Field(i).Tag.Get("expr"), summary.Field(i)
		if value.CanInt() {
			e[name] = float64(value.Int())
		} else {
			e[name] = value.Interface()
		}
	}
	return e
}

// SetNCCL adds the release of NCCL; 0: not known.
func (e Env) SetNCCL(release nccl.Version) {
	if release != 0 {
		e[string(NCCL)] = releaseText(release)
	}
}

// releaseText writes a release with as many digits as AnyRelease.Max has, so that texts compare as releases do.
func releaseText(release nccl.Version) string { return fmt.Sprintf("%010d", release) }

// SetName adds the communicator's name; "": none, or not known.
func (e Env) SetName(name string) {
	if name != "" {
		e[string(Name)] = name
	}
}

// SetCall adds what one call has. e must come from EnvOf.
func (e Env) SetCall(call nccl.Call, pipeOps int) {
	e["coll"] = call.Coll.String()
	e["bytes"] = float64(call.Bytes)
	e["bytes_per_rank"] = float64(call.Bytes / uint64(e["ranks"].(float64)))
	e["pipe_ops"] = float64(pipeOps)
}

// ofComm has the names that are the same for all calls of a communicator, allNames those of calls,
// too. Their values have no meaning but their types.
var (
	ofComm = func() Env {
		e := EnvOf(nccl.Comm{Nodes: 1, Ranks: 1}, 0, &topo.Summary{})
		e.SetNCCL(nccl.Reference)
		e.SetName("name")
		return e
	}()
	allNames = func() Env {
		e := maps.Clone(ofComm)
		e.SetCall(nccl.Call{}, 0)
		return e
	}()
)

// texts has, by name, the spellings in lower case of what the text can be.
var texts = func() map[string]map[string]string {
	all := map[string]map[string]string{"coll": {}}
	for spelling, coll := range nccl.Colls.Spellings() {
		all["coll"][spelling] = coll.String()
	}
	for name, known := range topo.SummaryTexts() {
		spellings := map[string]string{}
		for _, text := range known {
			spellings[strings.ToLower(text)] = text
		}
		all[topoPrefix+name] = spellings
	}
	return all
}()
