package doctor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// soundOnNodes is an environment in which several nodes find nothing wrong. The nodes start this test as tunefit.
func soundOnNodes(t *testing.T) (policy string) {
	t.Helper()
	testlib.NeedPlugin(t)
	policy = testlib.File(t, "policy.csv", "allreduce,0,inf,ring,simple,-1,-1,-1\n")
	for name, value := range map[string]string{testkit.AsTunefit: "1", "NCCL_DEBUG": "WARN",
		"NCCL_TUNER_PLUGIN": testlib.Library,
		tuner.EnvConfigFile: policy, tuner.EnvReload: "off"} {
		t.Setenv(name, value)
	}
	return policy
}

// perNode is a program that gives each node of Slurm a policy of its own.
func perNode(t *testing.T, policy string) string {
	t.Helper()
	dir := filepath.Dir(policy)
	for node, text := range map[string]string{"node1": "allreduce,0,inf,ring,simple,-1,-1,-1\n",
		"node2": "allreduce,0,inf,tree,simple,-1,-1,-1\n"} {
		if err := os.WriteFile(filepath.Join(dir, node+".csv"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return testlib.File(t, "pernode", `NCCL_TUNER_CONFIG_FILE=`+dir+`/$SLURMD_NODENAME.csv exec "$@"`+"\n")
}

// All nodes of a real Slurm are examined at once, and who differs is named.
func TestDoctorBySlurm(t *testing.T) {
	policy := soundOnNodes(t)
	cluster := testlib.Slurm(t, 4)
	out, said := tunefit(t, cli.ExitOK, "doctor", "--plugin", testlib.Library, "--launch", "srun -N 4")
	if !strings.HasSuffix(out, "sound\n4 nodes agree\n") || strings.Count(out, "ok       plugin") != 1 {
		t.Errorf("%s%s", out, said)
	}
	own := perNode(t, policy)
	out, _ = tunefit(t, cli.ExitFailed, "doctor", "--plugin", testlib.Library, "--launch",
		"srun -N 2 -w node[1-2] sh "+own)
	for _, words := range []string{"the nodes differ", "node1: ", "node2: ", "2 nodes differ in files\n"} {
		if !strings.Contains(out, words) {
			t.Errorf("no %q in\n%s", words, out)
		}
	}
	out, _ = tunefit(t, cli.ExitFailed, "doctor", "--plugin", testlib.Library, "--launch", "srun -N 4 sh "+own)
	for _, words := range []string{"node3: ", "node4: ", "no such file", "4 nodes differ in files"} {
		if !strings.Contains(out, words) {
			t.Errorf("no %q in\n%s", words, out)
		}
	}
	// A node is gone before the others answer.
	cluster.Kill(t, "node3")
	out, said = tunefit(t, cli.ExitFailed, "doctor", "--plugin", testlib.Library, "--nodes", "4", "--launch",
		"srun -N 3")
	if !strings.Contains(out, "error    launch       3 of 4 nodes answered: node[1-2,4]\n") ||
		!strings.HasSuffix(out, "3 nodes agree\n") {
		t.Errorf("%s%s", out, said)
	}
}

// So are those of a real Open MPI, which itself says which host it cannot reach.
func TestDoctorByMPIRun(t *testing.T) {
	soundOnNodes(t)
	mpirun := "mpirun " + strings.Join(testlib.OpenMPI(t), " ")
	if os.Geteuid() == 0 {
		mpirun += " --allow-run-as-root"
	}
	out, said := tunefit(t, cli.ExitOK, "doctor", "--plugin", testlib.Library, "--launch",
		mpirun+" -np 4 --host node1,node2,node3,node4")
	if !strings.HasSuffix(out, "sound\n4 nodes agree\n") {
		t.Errorf("%s%s", out, said)
	}
	out, said = tunefit(t, cli.ExitFailed, "doctor", "--plugin", testlib.Library, "--launch",
		mpirun+" -np 2 --host node1,node9")
	if !strings.Contains(out, "0 of 2 nodes answered") ||
		!strings.Contains(said, "host node9 port 22: Connection refused") {
		t.Errorf("%s%s", out, said)
	}
}

// A launcher that does not say how many nodes there are is asked for it; JSON has the nodes.
func TestDoctorLaunchOptions(t *testing.T) {
	soundOnNodes(t)
	if _, said := tunefit(t, cli.ExitUsage, "doctor", "--launch", "sh -c"); !strings.Contains(said, "--nodes N") {
		t.Errorf("%s", said)
	}
	twice := testlib.File(t, "twice", `SLURMD_NODENAME=n1 "$@"; unset NCCL_DEBUG; SLURMD_NODENAME=n2 "$@"`+"\n")
	out, _ := tunefit(t, cli.ExitFailed, "doctor", "--plugin", testlib.Library, "--nodes", "2", "--json", "--launch",
		"sh "+twice)
	if !strings.Contains(strings.Join(strings.Fields(out), ""), `"nodes":["n2"]`) ||
		!strings.Contains(out, "NCCL_DEBUG") {
		t.Errorf("%s", out)
	}
}
