package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/configs"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/hostlist"
)

// world is the processes of a run and where they are.
type world struct {
	rank, size int      // of this process, and how many there are
	local      int      // processes of each node but the last, which may have fewer
	perRank    int      // ranks of NCCL in each process
	hosts      []string // of the nodes, in the order of ranks; there may be more
}

func (w *world) ranks() int { return w.size * w.perRank }

func (w *world) nodes() int { return (w.size + w.local - 1) / w.local }

// hostOf is where a rank of NCCL is, and its number there.
func (w *world) hostOf(rank int) (host string, device int) {
	perNode := w.local * w.perRank
	return w.hosts[rank/perNode], rank % perNode
}

// findWorld asks the variables of Open MPI and Slurm. To play many nodes on one, perNode (ranks of NCCL on each node)
// and hosts go before what these say.
func findWorld(getenv func(string) string, perRank, perNode int, hosts []string) *world {
	first := func(names ...string) string {
		for _, name := range names {
			if value := getenv(name); value != "" {
				return value
			}
		}
		return ""
	}
	number := func(names ...string) int { // 0: not known
		n, _ := strconv.Atoi(first(names...))
		return max(n, 0)
	}
	w := &world{size: 1, perRank: perRank, hosts: hosts}
	switch {
	case getenv("OMPI_COMM_WORLD_SIZE") != "":
		w.size = number("OMPI_COMM_WORLD_SIZE")
		w.rank = number("OMPI_COMM_WORLD_RANK", "PMIX_RANK")
		w.local = number("OMPI_COMM_WORLD_LOCAL_SIZE")
	case first("SLURM_STEP_ID", "SLURM_STEPID") != "": // srun; in a script of sbatch there is one process
		w.size = number("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "PMI_SIZE")
		w.rank = number("SLURM_PROCID", "PMIX_RANK", "PMI_RANK")
		nodes := max(1, number("SLURM_STEP_NUM_NODES", "SLURM_NNODES"))
		w.local = (w.size + nodes - 1) / nodes
	}
	if perNode > 0 {
		w.local = max(1, perNode/perRank)
	}
	w.size = max(w.size, 1)
	if w.local == 0 {
		w.local = w.size
	}
	if len(w.hosts) == 0 {
		w.hosts = hostlist.Expand(first("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"))
	}
	here, err := os.Hostname()
	if err != nil {
		here = "localhost"
	}
	here, _, _ = strings.Cut(here, ".")
	for i := len(w.hosts); i < w.nodes(); i++ { // their names are not known
		name := here
		if i > 0 {
			name = fmt.Sprintf("%s-%d", here, i+1)
		}
		w.hosts = append(w.hosts, name)
	}
	return w
}

// dump writes the machine's topology, where NCCL_TOPO_DUMP_FILE names a file for it, if one of this process's ranks is
// the one that does so. It is the whole machine, also where the run uses a part.
func (w *world) dump(getenv func(string) string) error {
	file := getenv("NCCL_TOPO_DUMP_FILE")
	rank, _ := strconv.Atoi(getenv("NCCL_TOPO_DUMP_FILE_RANK")) // 0 where it is not set
	if file == "" || rank < w.rank*w.perRank || rank >= (w.rank+1)*w.perRank {
		return nil
	}
	return os.WriteFile(file, []byte(configs.DGXH100), 0o644)
}
