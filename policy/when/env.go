package when

import (
	"math"
	"reflect"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Env holds the value of each name that a condition may use.
type Env map[string]any

// anyEnv has the types of all names.
func anyEnv() Env {
	e := Env{}
	for name, v := range variables {
		e[name] = v.zero
	}
	return e
}

// EnvOf returns what is the same for all calls of a communicator. machine may be nil: not known.
// Names whose values are not known are left out.
func EnvOf(nodes, ranks, nvlDomains int, machine *topo.Summary) Env {
	e := Env{nameNodes: nodes, nameRanks: ranks, nameNVLDomains: nvlDomains}
	if ranks%nodes == 0 {
		e[nameRanksPerNode] = ranks / nodes
	}
	if machine == nil {
		return e
	}
	summary := reflect.ValueOf(*machine)
	for name, v := range variables {
		if strings.HasPrefix(name, topoPrefix) {
			e[name] = summary.Field(v.field).Interface()
		}
	}
	return e
}

// setCall adds what is the call's own. More bytes than an int holds, which no collective has, count
// as the most that it holds.
func (e Env) setCall(coll nccl.Coll, bytes uint64, pipeOps int) {
	ranks := uint64(e[nameRanks].(int))
	e[nameColl] = coll.String()
	e[nameBytes] = int(min(bytes, math.MaxInt))
	e[nameBytesPerRank] = int(min(bytes/ranks, math.MaxInt))
	e[namePipeOps] = pipeOps
}
