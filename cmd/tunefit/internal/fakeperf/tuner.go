package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/host"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// plugin is the tuner that NCCL would load, in a child process, as one rank of the communicator.
type plugin struct {
	library *host.Plugin
	comm    *host.Comm
}

// envReload has a value that leaves no records behind: there is one rank, and it does not leave its communicator.
const envReload, reloadNever = "NCCL_TUNER_RELOAD", "new"

// loadTuner does as NCCL with NCCL_TUNER_PLUGIN (src/plugin/tuner.cc and plugin_open.cc, 2.30). nil: there is no tuner.
// Without the variable NCCL looks for a libnccl-tuner.so; here there is none.
func (t *test) loadTuner() (*plugin, error) {
	value, tried := os.Getenv("NCCL_TUNER_PLUGIN"), []string{"libnccl-tuner.so"}
	if value != "" {
		t.log.info(subsysENV|subsysTUNING, "NCCL_TUNER_PLUGIN set by environment to %s", value)
		if strings.EqualFold(value, "none") {
			return nil, nil
		}
		tried = pluginNames(value)
		for _, name := range tried {
			if t.settings.starting(failNoPlugin) {
				break
			}
			lib, err := host.Probe(context.Background(), name, os.Environ())
			if refused := (*host.NotLoadedError)(nil); errors.As(err, &refused) {
				continue
			}
			if err != nil {
				return nil, err
			}
			return t.openTuner(value, lib)
		}
	}
	t.log.info(subsysINIT|subsysTUNING, "TUNER/Plugin: Could not find: %s", strings.Join(tried, " "))
	return nil, nil
}

// pluginNames lists what NCCL opens.
func pluginNames(value string) []string {
	if strings.Contains(value, "/") || strings.HasPrefix(value, "lib") && strings.HasSuffix(value, ".so") {
		return []string{value}
	}
	return []string{value, "libnccl-tuner-" + value + ".so"}
}

func (t *test) openTuner(value string, lib *host.Library) (*plugin, error) {
	abi := t.settings.nccl.ABI(func(abi int) bool { return lib.Tuners[abi] != "" })
	if abi == 0 {
		t.log.info(subsysINIT|subsysTUNING, "External tuner plugin %s is unsupported", value)
		return nil, nil
	}
	library, err := host.Load(lib.Path, abi)
	if err != nil {
		return nil, err
	}
	if os.Getenv(envReload) == "" {
		if err := library.Setenv(envReload, reloadNever); err != nil {
			return nil, err
		}
	}
	t.log.info(subsysINIT|subsysTUNING, "TUNER/Plugin: Using %s (v%d)", lib.Tuners[abi], abi)
	t.log.info(subsysINIT|subsysTUNING, "Successfully loaded external tuner plugin %s", lib.Path)
	nodes := len(t.world.nodes)
	comm, log, err := library.Open(host.CommInfo{Nodes: nodes, Ranks: t.world.ranks(), NVLDomains: nodes,
		NCCL: t.settings.nccl})
	for _, l := range log {
		t.log.plugin(l)
	}
	if err != nil {
		return nil, &tunerError{err}
	}
	return &plugin{library, comm}, nil
}

// tunerError is the plugin's, for which NCCL fails to create the communicator or aborts the collective.
type tunerError struct{ error }

func (p *plugin) ask(coll nccl.Coll, bytes uint64, table nccl.CostTable) (a host.Answer, err error) {
	call := host.Call{Coll: int(coll), Bytes: int64(bytes), PipeOps: 1, NumProto: nccl.NumProtos}
	for _, row := range table {
		call.Table = append(call.Table, row[:]...)
	}
	answers, err := p.comm.Ask([]host.Call{call})
	if err != nil {
		return a, &tunerError{err}
	}
	return answers[0], nil
}
