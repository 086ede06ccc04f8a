package testlib

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// agent takes ssh's place: it starts what it is told on this machine under the name of a host, so that Open MPI's
// daemons run as on nodes of their own. node9 does not answer.
const agent = `#!/bin/sh
host=$1; shift
[ "$host" != node9 ] || { echo "ssh: connect to host node9 port 22: Connection refused" >&2; exit 255; }
exec %s sh -c 'hostname "$0"; exec sh -c "$1"' "$host" "$*"
`

// OpenMPI returns arguments of mpirun with which it takes hosts of any name for this machine. It skips where there is
// no Open MPI, and with -short.
func OpenMPI(t *testing.T) []string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts daemons on nodes")
	}
	if _, err := exec.LookPath("mpirun"); err != nil {
		t.Skip("SKIPPED: there is no Open MPI here (Debian: openmpi-bin): NOTHING IS TESTED WITH A REAL mpirun")
	}
	unshare := "unshare --uts"
	if os.Geteuid() != 0 {
		unshare = "unshare --map-root-user --uts"
	}
	if out, err := exec.Command("sh", "-c", unshare+" hostname node1").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: %s: %v: %s: a process cannot have a host name of its own, so NOTHING IS TESTED WITH A REAL "+
			"mpirun", unshare, err, out)
	}
	file := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(file, fmt.Appendf(nil, agent, unshare), 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{"--mca", "plm_rsh_agent", file, "--mca", "orte_tmpdir_base", OpenMPIFolder(t)}
}

// OpenMPIFolder is for the files of one mpirun (orte_tmpdir_base). Two that begin at the same time in one folder fail
// each other ("File exists").
func OpenMPIFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ompi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) // a daemon may still be about to end
	return dir
}
