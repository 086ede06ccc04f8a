package doctor

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/host"
)

// frameworks have kernels of their own for collectives inside a node. Whether a job uses them is up to its flags, so
// the environment only tells that it may be such a job.
//
// Sources: vLLM's envs.py and distributed/device_communicators (custom_all_reduce.py, symm_mem.py), SGLang's
// distributed/device_communicators and server arguments, TensorRT-LLM's AllReduceStrategy.
var frameworks = []struct {
	name     string
	prefixes []string // of its variables
	do       string
}{
	{"vLLM", []string{"VLLM_"}, "for NCCL and the policy: vllm serve --disable-custom-all-reduce, and " +
		"VLLM_ALLREDUCE_USE_SYMM_MEM=0, which is 1 if unset"},
	{"SGLang", []string{"SGLANG_", "SGL_"}, "for NCCL and the policy: --disable-custom-all-reduce, and no " +
		"--enable-mscclpp and no --enable-torch-symm-mem"},
	{"TensorRT-LLM", []string{"TRTLLM_", "TLLM_"}, "for NCCL and the policy: allreduce_strategy NCCL instead of AUTO"},
}

// bypasses says whose variables are in the environment that may take collectives past NCCL, and so past the tuner.
func bypasses(e *localenv.Environment) (found []Finding) {
	names := slices.Sorted(maps.Keys(e.Vars))
	for _, f := range frameworks {
		i := slices.IndexFunc(names, func(name string) bool {
			return slices.ContainsFunc(f.prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
		})
		if i < 0 {
			continue
		}
		// The value may be a key.
		found = append(found, noted(f.do, "%s is set: if this is a job of %s, its own kernels may do the allreduces "+
			"inside a node, and no tuner is asked about these", names[i], f.name))
	}
	return found
}

// isRCCL goes by the file's name, since RCCL tells NCCL's version.
func isRCCL(lib *host.Library) bool { return strings.HasPrefix(filepath.Base(lib.Path), "librccl") }

// rcclFindings says what AMD's library decides by itself.
//
// Source: RCCL's src/misc/msccl/msccl_lifecycle.cc and src/init.cc.
func (d *doctor) rcclFindings(lib *host.Library, what string) (found []Finding) {
	if isRCCL(lib) {
		found = append(found, noted("measure these sizes with the library loaded and without",
			"%s: on one node of gfx950 (MI350X, MI355X) any tuner, this one too, turns off its own choice of tree and "+
				"LL from 64 B to 256 KiB a rank. After the tuner it may still force tree or ring", what))
	}
	msccl, plusplus := d.env.Get("RCCL_MSCCL_ENABLE"), d.env.Get("RCCL_MSCCLPP_ENABLE")
	if lib.MSCCL && (msccl != "0" || plusplus != "0") {
		found = append(found, noted("if the policy is to decide these, set RCCL_MSCCL_ENABLE=0 and "+
			"RCCL_MSCCLPP_ENABLE=0",
			"%s has MSCCL and may have MSCCL++: no tuner is asked about what they take. MSCCL is on where RCCL has "+
				"algorithms for the machine, or with RCCL_MSCCL_FORCE_ENABLE=1. MSCCL++ takes allreduces and "+
				"allgathers in captured graphs, up to RCCL_MSCCLPP_THRESHOLD (1 MiB)", what))
	}
	return found
}
