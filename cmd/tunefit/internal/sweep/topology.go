package sweep

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// topologyFolder has a file for each node, NODE.xml: the topology as NCCL found it there.
const topologyFolder = "topology"

// dumpScript starts a program with NCCL's variables for a file of the topology. One rank of each node writes it, the
// first. All ranks have the variable of the file: those that have it exchange more than others, which would hang.
// Where nothing tells the rank of a process, rank 0 of all writes. node is set before it. Its arguments are the folder
// and the number of GPUs of a process, then the program. It is one line, as all of a run's command.
//
// Source: initTransportsRank in NCCL's src/init.cc, ncclTopoGetSystem in src/graph/topo.cc.
const dumpScript = `export NCCL_TOPO_DUMP_FILE="$1/$node.xml" NCCL_TOPO_DUMP_FILE_RANK=-1; ` +
	`rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${SLURM_PROCID:-${PMI_RANK:-0}}}}; ` +
	`[ "${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-${MPI_LOCALRANKID:-0}}}" != 0 ] || ` +
	`NCCL_TOPO_DUMP_FILE_RANK=$((rank * $2)); shift 2; exec "$@"`

// dumps reports whether a run has NCCL write what it found: the first one of a subject, on all GPUs of its nodes. A run
// on a part of them would show a machine that no job finds. If it fails, the next one does without.
func (s *Sweep) dumps(r *Run) bool {
	_, gpus := s.needs()
	return r.kind == Measure && s.setting == "" && r.of.Key.Ranks/r.of.Key.Nodes == gpus && !s.moreGPUs &&
		len(s.runs(r.of.Key)) == 0
}

// dumping is a program's command with what writes the topology.
func (s *Sweep) dumping(argv []string, each int) ([]string, error) {
	folder, err := filepath.Abs(filepath.Join(s.Dir, topologyFolder))
	if err != nil {
		return nil, err
	}
	return slices.Concat([]string{"/bin/sh", "-c", "node=" + s.Launcher.NodeName() + "; " + dumpScript, "sh", folder,
		fmt.Sprint(each)}, argv), nil
}

// keepTopology copies what NCCL wrote on a node to topology.xml, beside the policy, for other commands to take the
// machine from. It says why not, where nodes differ.
func (s *Sweep) keepTopology() error {
	files, _ := filepath.Glob(filepath.Join(s.Dir, topologyFolder, "*.xml"))
	var first topo.Fingerprint
	var like, unlike []string // the nodes like the first, and those that are not
	unlikeFile := ""
	for _, file := range files {
		node := strings.TrimSuffix(filepath.Base(file), ".xml")
		kind, err := fingerprintOf(file)
		if err != nil {
			s.Say("the topology that NCCL wrote on %s is not understood, so nothing is said of the machine: %v", node,
				err)
			return os.RemoveAll(s.Topology())
		}
		if first = cmp.Or(first, kind); kind == first {
			like = append(like, node)
		} else {
			unlike, unlikeFile = append(unlike, node), cmp.Or(unlikeFile, file)
		}
	}
	if len(unlike) > 0 {
		s.Say("NCCL found another topology on %s than on %s (%s, %s): nodes differ, and times may be those of the "+
			"slower ones; --hosts, or -x of salloc and sbatch, leave nodes out", cli.Few(unlike, 8, ", "),
			cli.Few(like, 8, ", "), unlikeFile, files[0])
		return os.RemoveAll(s.Topology())
	}
	if len(files) == 0 {
		return nil
	}
	text, err := safefile.Read(files[0], mostRead)
	if err != nil {
		return err
	}
	return cli.WriteText(s.Topology(), text)
}

// Topology is the file of the machine that was measured, as NCCL found it. There is none where NCCL wrote none, or
// where nodes differ.
func (s *Sweep) Topology() string { return filepath.Join(s.Dir, "topology.xml") }

func fingerprintOf(file string) (kind topo.Fingerprint, err error) {
	doc, err := topo.ReadFile(file)
	if err != nil {
		return kind, err
	}
	system, err := topo.Build(doc, topo.SettingsFromEnv(os.Getenv))
	if err != nil {
		return kind, err
	}
	return system.Fingerprint(), nil
}
