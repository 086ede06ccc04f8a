package launch

import (
	"slices"
	"testing"
)

// The best evidence counts alone; what all nodes suffer from is no node's fault.
func TestBlame(t *testing.T) {
	for log, want := range map[string][]string{
		"": nil,
		"srun: error: node[1-4]: tasks 0-31: Exited with exit " +
			"code 2\n": nil,
		"srun: error: gpu07: task 24: Segmentation fault (core dumped)\nsrun: error: gpu[01-06]: tasks 0-23: " +
			"Terminated\n": {"gpu07"},
		"srun: error: node1: tasks 0-7: Exited with exit code 3\nsrun: error: node2: tasks 8-15: Exited with exit " +
			"code 3\n": nil,
		"srun: error: node1: tasks 0-7: Terminated\n": nil,
		"srun: error: node1: tasks 0-7: Exited with exit code 1\nsrun: error: Node failure on " +
			"node[08-09,12],gpu1\n": {"node08", "node09", "node12", "gpu1"},
		"slurmstepd: error: *** STEP 5.0 ON node1 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE, SEE " +
			"SLURMCTLD LOG FOR DETAILS ***\n": nil,
		"srun: error: Task launch for StepId=5.0 failed on node node3: Communication connection " +
			"failure\n": {"node3"},
		"ssh: connect to host 10.0.0.7 port 22: No route to host\n":                                       {"10.0.0.7"},
		"ssh: Could not resolve hostname nodex: Name or service not known\n":                              {"nodex"},
		"root@node5: Permission denied (publickey,password).\n":                                           {"node5"},
		"pdsh@head: node4: ssh exited with exit code 255\n":                                               {"node4"},
		"prterun noticed that process rank 3 with PID 1234 on node node2 exited on\nsignal 9 (Killed).\n": {"node2"},
		"PRTE has lost communication with a remote daemon.\n\n  HNP daemon   : [prterun-head-12@0,0] on node head\n  " +
			"Remote daemon: [prterun-head-12@0,1] on node node6\n": {"node6"},
		// All complain of a neighbour, and the one that does not is the one that went away.
		"node1:10:20 [0] socket.cc:571 NCCL WARN socketProgress: Connection closed by remote peer node4<41234>\n" +
			"node2:10:20 [0] socket.cc:571 NCCL WARN socketProgress: Connection closed by remote peer node3<51234>\n" +
			"node4:10:20 [0] socket.cc:571 NCCL WARN socketProgress: Connection closed by remote peer " +
			"node3.cluster<51234>\n": {"node3"},
		"node1:10:20 [0] NCCL WARN Connection closed by remote peer node2<1>\nnode2:10:20 [0] NCCL WARN Connection " +
			"closed by remote peer node1<1>\n": nil,
		"12: node3:10:20 [5] enqueue.cc:1 NCCL WARN Cuda failure 'uncorrectable ECC error encountered'\nnode1:1:2 " +
			"[0] NCCL WARN closed by remote peer node2<1>\n": {"node3"},
		"node2: Test CUDA failure common.cu:892 'an illegal memory access was encountered'\n .. node2 pid 12: Test " +
			"failure common.cu:1\n": {"node2"},
		"node2: Test NCCL failure common.cu:958 'unhandled system error'\nnode1: Test NCCL failure common.cu:958 " +
			"'remote process exited'\n": nil,
	} {
		if got := (&Launcher{}).Blame([]byte(log)); !slices.Equal(got, want) {
			t.Errorf("%q blamed, want %q:\n%s", got, want, log)
		}
	}
}
