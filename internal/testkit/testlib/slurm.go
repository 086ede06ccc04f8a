package testlib

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slurmConf is a cluster on one machine: nodes are daemons with names and ports of their own. Nothing is given up
// because the machine is busy; GPUs are links to /dev/null, and CUDA_VISIBLE_DEVICES has those of a step.
const slurmConf = `ClusterName=tunefit-test
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[2]d
SlurmUser=%[3]s
SlurmdUser=%[3]s
AuthType=auth/munge
AuthInfo=socket=%[4]s/munge.sock
CredType=cred/munge
StateSaveLocation=%[4]s/state
SlurmdSpoolDir=%[4]s/%%n
SlurmctldPidFile=%[4]s/slurmctld.pid
SlurmdPidFile=%[4]s/%%n.pid
SlurmctldLogFile=%[4]s/slurmctld.log
SlurmdLogFile=%[4]s/%%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
ReturnToService=1
MessageTimeout=100
TCPTimeout=100
BatchStartTimeout=300
SlurmdTimeout=3600
KillWait=5
GresTypes=gpu
NodeName=node[1-%[5]d] NodeHostname=%[1]s NodeAddr=127.0.0.1 Port=[%[6]d-%[7]d] \
  CPUs=64 SocketsPerBoard=1 CoresPerSocket=64 ThreadsPerCore=1 \
  Gres=gpu:8 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

// Cluster is Slurm on this machine, for one test.
type Cluster struct {
	conf string
}

// Slurm starts a cluster of node1, node2, ..., which the environment of the test then leads to. It skips where there
// is no Slurm, and with -short.
func Slurm(t *testing.T, nodes int) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	for _, program := range []string{"munged", "slurmctld", "slurmd", "srun", "salloc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: there is no %s here (Debian: slurmctld slurmd slurm-client munge): NOTHING IS TESTED "+
				"WITH A REAL SLURM", program)
		}
	}
	c, err := startSlurm(t, nodes)
	// somebody may have taken a port between the look and the use
	for again := 0; again < 2 && errors.Is(err, errDaemonEnded); again++ {
		c, err = startSlurm(t, nodes)
	}
	if err == nil {
		return c
	}
	t.Skipf("SKIPPED: Slurm does not start here: %v: NOTHING IS TESTED WITH A REAL SLURM", err)
	return nil
}

var errDaemonEnded = errors.New("a daemon of Slurm ended")

func startSlurm(t *testing.T, nodes int) (c *Cluster, err error) {
	dir, err := os.MkdirTemp("", "slurm") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	host, err1 := os.Hostname()
	me, err2 := user.Current()
	key := make([]byte, 128)
	rand.Read(key)
	host, _, _ = strings.Cut(host, ".")
	first := freePorts(t, nodes+1)
	c = &Cluster{conf: filepath.Join(dir, "slurm.conf")}
	for _, err := range []error{err1, err2, os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "state"), 0o755),
		os.WriteFile(filepath.Join(dir, "munge.key"), key, 0o600),
		os.WriteFile(filepath.Join(dir, "gres.conf"),
			[]byte("Name=gpu File="+dir+"/gpu[0-7] Flags=nvidia_gpu_env\n"), 0o644),
		os.WriteFile(c.conf, fmt.Appendf(nil, slurmConf, host, first, me.Username, dir, nodes, first+1, first+nodes),
			0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for gpu := range 8 {
		if err := os.Symlink(os.DevNull, filepath.Join(dir, "gpu"+strconv.Itoa(gpu))); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SLURM_CONF", c.conf)
	killAll := func() { c.kill(func(string) bool { return true }) }
	t.Cleanup(killAll)
	defer func() {
		if err != nil {
			killAll()
		}
	}()
	failed := make(chan error, nodes+2)
	start := func(env string, argv ...string) {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), env)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		go func() {
			runtime.LockOSThread() // it is the end of the thread at which a daemon ends
			err := cmd.Run()
			failed <- fmt.Errorf("%w: %s: %v: %s", errDaemonEnded, argv, err, last(said.String()))
		}()
	}
	start("", "munged", "--foreground", "--num-threads=4", "--key-file="+dir+"/munge.key",
		"--socket="+dir+"/munge.sock", "--pid-file="+dir+"/munge.pid", "--seed-file="+dir+"/munge.seed")
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) { // Slurm does it
		if _, err := os.Stat(dir + "/munge.sock"); err == nil {
			break
		}
		select {
		case err := <-failed:
			return nil, err
		default:
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("munged makes no socket")
		}
	}
	start("", "slurmctld", "-D", "-c")
	for n := range nodes {
		node := "node" + strconv.Itoa(n+1)
		start(nodeVariable+"="+node, "slurmd", "-D", "-N", node)
	}
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(20 * time.Millisecond) { // Slurm does it
		states, err := exec.Command("sinfo", "--noheader", "--Node", "--format=%T").CombinedOutput()
		if err == nil && string(states) == strings.Repeat("idle\n", nodes) {
			return c, nil
		}
		select {
		case err := <-failed:
			return nil, err
		default:
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the nodes are not idle: %s", states)
		}
	}
}

// Allocate gets nodes by salloc. The environment of the test is then that of a command of the allocation.
func (c *Cluster) Allocate(t *testing.T, options ...string) {
	t.Helper()
	argv := slices.Concat([]string{"--quiet"}, options, []string{"sh", "-c", "env; echo; exec cat"})
	cmd := exec.Command("salloc", argv...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() }) // then it ends, or with the cluster
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "" {
		if name, value, _ := strings.Cut(lines.Text(), "="); strings.HasPrefix(name, "SLURM_") {
			t.Setenv(name, value)
		}
	}
	if os.Getenv("SLURM_JOB_ID") == "" {
		t.Fatal("there is no allocation")
	}
}

// freePorts returns the first of some ports in a row that nobody has, below those that the system gives to anybody.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	var b [2]byte
next:
	for range 1000 {
		rand.Read(b[:])
		first := 10000 + (int(b[0])<<8|int(b[1]))%20000
		for port := first; port < first+n; port++ {
			l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
			if err != nil {
				continue next
			}
			l.Close()
		}
		return first
	}
	t.Fatal("there are no free ports")
	return 0
}

// nodeVariable tells a node's daemons.
const nodeVariable = "TUNEFIT_TEST_NODE"

// PowerOff ends all that runs on a node. The controller finds out by itself, but only after what a site calls
// SlurmdTimeout.
func (c *Cluster) PowerOff(node string) {
	c.kill(func(environ string) bool {
		return strings.Contains(environ, "\x00"+nodeVariable+"="+node+"\x00") ||
			strings.Contains(environ, "\x00SLURMD_NODENAME="+node+"\x00")
	})
}

// Kill ends all that runs on a node, and tells the controller.
func (c *Cluster) Kill(t *testing.T, node string) {
	t.Helper()
	c.PowerOff(node)
	if out, err := exec.Command("scontrol", "update", "nodename="+node, "state=down",
		"reason=killed").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// kill ends the cluster's processes whose environment is wanted, until there are none.
func (c *Cluster) kill(wanted func(environ string) bool) {
	for found := true; found; {
		found = false
		all, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, file := range all {
			text, err := os.ReadFile(file)
			environ := "\x00" + string(text)
			if err != nil || !strings.Contains(environ, "\x00SLURM_CONF="+c.conf+"\x00") || !wanted(environ) {
				continue
			}
			if pid, err := strconv.Atoi(strings.Split(file, "/")[2]); err == nil && pid != os.Getpid() {
				found = syscall.Kill(pid, syscall.SIGKILL) == nil || found
			}
		}
	}
}

// last returns the last lines of what a program said.
func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "; ")
}
