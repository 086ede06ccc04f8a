package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/probe"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/host"
)

// plugin is the tuner that NCCL would load. It runs in a child process and sees one rank of the communicator.
type plugin struct {
	library *host.Plugin
	comm    *host.CommHandle
}

// With envReload=reloadNever the plugin writes no records. Nothing would remove them, since the one rank here does not
// leave its communicator.
const envReload, reloadNever = "NCCL_TUNER_RELOAD", "new"

// loadTuner does as NCCL with NCCL_TUNER_PLUGIN (src/plugin/tuner.cc and plugin_open.cc, 2.30). nil: there is no tuner.
// NCCL looks for a libnccl-tuner.so without the variable and takes names that are no file's; this program does not.
func (t *test) loadTuner() (*plugin, error) {
	value := os.Getenv("NCCL_TUNER_PLUGIN")
	if value == "" {
		return nil, nil
	}
	t.log.info("ENV,TUNING", "NCCL_TUNER_PLUGIN set by environment to %s", value)
	if strings.EqualFold(value, "none") {
		return nil, nil
	}
	lib, err := probe.Open(context.Background(), value, os.Environ())
	refused := (*probe.NotLoadedError)(nil)
	missing := func(f failure) bool { return f.what == failNoPlugin && f.isNow(t.settings.start) }
	if errors.As(err, &refused) || slices.ContainsFunc(t.settings.fails, missing) {
		t.log.info("INIT,TUNING", "TUNER/Plugin: Could not find: %s", value)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return t.openTuner(value, lib)
}

func (t *test) openTuner(value string, lib *probe.Library) (*plugin, error) {
	abi := t.settings.nccl.ABI(func(abi int) bool { return lib.Tuners[abi] != "" })
	if abi == 0 {
		t.log.info("INIT,TUNING", "External tuner plugin %s is unsupported", value)
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
	t.log.info("INIT,TUNING", "TUNER/Plugin: Using %s (v%d)", lib.Tuners[abi], abi)
	t.log.info("INIT,TUNING", "Successfully loaded external tuner plugin %s", lib.Path)
	nodes := t.world.nodes()
	comm, log, err := library.Open(host.CommInfo{Comm: nccl.Comm{Nodes: nodes, Ranks: t.world.ranks()},
		NVLDomains: nodes, NCCL: t.settings.nccl})
	for _, l := range log {
		t.log.plugin(l)
	}
	if err != nil {
		return nil, &tunerError{err}
	}
	return &plugin{library, comm}, nil
}

// tunerError is an error of the plugin. NCCL then fails to create the communicator, or aborts the collective.
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
