package main

import (
	"os"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/hostlist"
)

// world is the processes of a run and where they are.
type world struct {
	rank, size int      // of this process, and how many there are
	perRank    int      // ranks of NCCL in each process
	nodes      []int    // processes on each node, in the order of ranks
	hosts      []string // of the nodes, and there may be more
}

func (w *world) ranks() int { return w.size * w.perRank }

// hostOf is where a rank of NCCL is, and its number there.
func (w *world) hostOf(rank int) (host string, device int) {
	process := rank / w.perRank
	for i, n := range w.nodes {
		if process < n {
			return w.hosts[i], process*w.perRank + rank%w.perRank
		}
		process -= n
	}
	return w.hosts[len(w.nodes)-1], rank
}

// findWorld asks the variables of Open MPI and Slurm. To play many nodes on one, perNode (ranks of NCCL on each node)
// and hosts go before what these say.
func findWorld(getenv func(string) string, perRank, perNode int, hosts []string) *world {
	number := func(names ...string) (n int, ok bool) {
		for _, name := range names {
			if n, err := strconv.Atoi(getenv(name)); err == nil && n >= 0 {
				return n, true
			}
		}
		return 0, false
	}
	w := &world{size: 1, perRank: perRank,
		hosts: hostlist.Expand(firstOf(getenv, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"))}
	local := 0
	ompi, inOpenMPI := number("OMPI_COMM_WORLD_SIZE")
	_, inStep := number("SLURM_STEP_ID", "SLURM_STEPID")
	switch {
	case inOpenMPI:
		w.size = ompi
		w.rank, _ = number("OMPI_COMM_WORLD_RANK", "PMIX_RANK")
		local, _ = number("OMPI_COMM_WORLD_LOCAL_SIZE")
	case inStep: // of srun; in the script of sbatch there is one process, whatever the allocation has
		w.size, _ = number("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "PMI_SIZE")
		w.rank, _ = number("SLURM_PROCID", "PMIX_RANK", "PMI_RANK")
		w.nodes = taskCounts(firstOf(getenv, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"))
		local, _ = number("SLURM_NTASKS_PER_NODE")
	}
	w.size = max(w.size, 1)
	sum := 0
	for _, n := range w.nodes {
		sum += n
	}
	if perNode > 0 {
		local, sum = max(1, perNode/perRank), 0
	}
	if sum != w.size {
		if local < 1 {
			local = w.size
		}
		w.nodes = nil
		for left := w.size; left > 0; left -= local {
			w.nodes = append(w.nodes, min(left, local))
		}
	}
	if len(hosts) > 0 {
		w.hosts = hosts
	}
	here, err := os.Hostname()
	if err != nil {
		here = "localhost"
	}
	here, _, _ = strings.Cut(here, ".")
	for i := len(w.hosts); i < len(w.nodes); i++ { // the rest has no known name
		name := here
		if i > 0 {
			name += "-" + strconv.Itoa(i+1)
		}
		w.hosts = append(w.hosts, name)
	}
	return w
}

func firstOf(getenv func(string) string, names ...string) string {
	for _, name := range names {
		if value := getenv(name); value != "" {
			return value
		}
	}
	return ""
}

// taskCounts reads Slurm's "8(x2),4".
func taskCounts(text string) (counts []int) {
	for part := range strings.SplitSeq(text, ",") {
		tasks, times, repeated := strings.Cut(strings.TrimSuffix(part, ")"), "(x")
		n, err := strconv.Atoi(tasks)
		if err != nil {
			return nil
		}
		k := 1
		if repeated {
			if k, err = strconv.Atoi(times); err != nil || k > 1<<16 {
				return nil
			}
		}
		for range k {
			counts = append(counts, n)
		}
	}
	return counts
}
