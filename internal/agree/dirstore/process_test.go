package dirstore

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/storetest"
)

// The test binary runs itself again as another process, told by these what to do.
const (
	envRole = "DIRSTORE_TEST_ROLE"
	envDir  = "DIRSTORE_TEST_DIR"
	envName = "DIRSTORE_TEST_NAME"
)

func TestMain(m *testing.M) {
	var err error
	switch role := os.Getenv(envRole); role {
	case "":
		os.Exit(m.Run())
	case "race":
		err = raceRole()
	case "rank":
		err = rankRole()
	case "hold":
		err = holdRole()
	case "aggregate":
		err = aggregateRole()
	case "forbidden":
		err = forbiddenRole()
	default:
		err = fmt.Errorf("role %q", role)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// raceRole races in a shared directory.
func raceRole() error {
	s, err := Open(os.Getenv(envDir), os.Getenv(envName))
	if err != nil {
		return err
	}
	return storetest.RacePart(s, os.Getenv(envName))
}

// rankRole is one of three ranks that agree through a directory that is given, as
// one is that machines share.
func rankRole() error {
	var rank int
	fmt.Sscan(os.Getenv(envName), &rank)
	s, err := Open(os.Getenv(envDir), os.Getenv(envName))
	if err != nil {
		return err
	}
	timing := agree.Local
	if os.Getenv(envShared) != "" {
		timing = agree.Shared
	}
	return storetest.RankPart(s, timing, rank, 3)
}

// holdRole opens the private directory and waits to be told, or killed.
func holdRole() error {
	s, err := Private(os.Getenv(envDir), "comm", os.Getenv(envName))
	if err != nil {
		return err
	}
	if _, err := s.PutOnce(context.Background(), "c/x/init", []byte("A")); err != nil {
		return err
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	s.Close()
	return nil
}

// aggregateRole is the node's aggregator, whose child has inherited all that is open, as a data
// loader has that a job forks. It prints the child's number and waits to be killed.
func aggregateRole() error {
	s, err := Private(os.Getenv(envDir), "comm", os.Getenv(envName))
	if err != nil {
		return err
	}
	if _, ok := s.LockAggregator(); !ok {
		return fmt.Errorf("another process is the aggregator")
	}
	child := exec.Command("sleep", "600")
	for fd := 3; fd < 100; fd++ {
		if at, err := os.Readlink(fmt.Sprint("/proc/self/fd/", fd)); err == nil && filepath.Base(at) == aggregatorName {
			child.ExtraFiles = append(child.ExtraFiles, os.NewFile(uintptr(fd), at))
		}
	}
	if err := child.Start(); err != nil {
		return err
	}
	fmt.Println("ready")
	fmt.Println("child", child.Process.Pid, "inherits", len(child.ExtraFiles))
	bufio.NewReader(os.Stdin).ReadString('\n')
	return nil
}

// forbiddenRole, which is not root, uses a store whose permissions are taken
// away and given back.
func forbiddenRole() error {
	ctx, dir := context.Background(), os.Getenv(envDir)
	s, err := Open(dir, "x")
	if err != nil {
		return err
	}
	if _, err := s.PutOnce(ctx, "c/x/d/1", []byte("commit")); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0); err != nil {
		return err
	}
	if _, _, err := s.Get(ctx, "c/x/d/1"); err == nil {
		return fmt.Errorf("get succeeds without permission")
	}
	if _, found, err := s.Get(ctx, "c/x/d/2"); found || err == nil {
		return fmt.Errorf("a record that may exist is taken for absent")
	}
	if _, err := s.PutOnce(ctx, "c/x/d/2", nil); err == nil {
		return fmt.Errorf("put succeeds without permission")
	}
	if _, err := s.List(ctx, "p"); err == nil {
		return fmt.Errorf("list succeeds without permission")
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	stands, err := s.PutOnce(ctx, "c/x/d/1", []byte("abort"))
	if err != nil || string(stands) != "commit" {
		return fmt.Errorf("afterwards: %q, %v", stands, err)
	}
	return nil
}

// start runs the test binary in a role and waits until it is ready.
func start(t *testing.T, role, dir, name string) *storetest.Process {
	t.Helper()
	return storetest.Start(t, envRole+"="+role, envDir+"="+dir, envName+"="+name)
}

func TestProcessesRace(t *testing.T) {
	views := sharedDir(t)
	var all []*storetest.Process
	for i := range 4 {
		all = append(all, start(t, "race", views[i%len(views)], fmt.Sprint("process-", i)))
	}
	storetest.Race(t, all)
	if left := temporaries(t, views[0]); left != nil {
		t.Errorf("left behind: %q", left)
	}
}

func TestProcessesAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	views := sharedDir(t)
	var ranks []*storetest.Process
	for i := range 3 {
		ranks = append(ranks, start(t, "rank", views[i%len(views)], fmt.Sprint(i)))
	}
	storetest.Agreement(t, ranks, nil)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestPrivateDirectoryGoesWithTheLastProcess(t *testing.T) {
	parent := t.TempDir()
	c := start(t, "hold", parent, "child")
	s, err := Private(parent, "comm", "parent")
	if err != nil {
		t.Fatal(err)
	}
	if value, found, err := s.Get(t.Context(), "c/x/init"); string(value) != "A" || !found || err != nil {
		t.Fatalf("the processes do not share the directory: %q, %v, %v", value, found, err)
	}
	s.Close()
	if !exists(s.Dir()) {
		t.Fatal("the directory is gone while a process holds it")
	}
	c.Say("end")
	c.Rest(t)
	if exists(s.Dir()) {
		t.Error("the directory outlives its last process")
	}
}

func TestCrashedJobIsSwept(t *testing.T) {
	parent := t.TempDir()
	alive := start(t, "hold", parent, "alive")
	t.Cleanup(func() { alive.Say("end") })
	dirs := func() []string {
		entries, err := os.ReadDir(parent)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	before := dirs()
	crashed, err := Private(parent, "crashed", "x")
	if err != nil {
		t.Fatal(err)
	}
	storetest.Put(t, crashed, "c/x/d/1", "commit")
	crashed.lock.Close() // what the kernel does for a process that is killed
	other, err := Private(parent, "other", "x")
	if err != nil {
		t.Fatal(err)
	}
	if exists(crashed.Dir()) {
		t.Error("a crashed job's directory stays")
	}
	other.Close()
	if after := dirs(); !slices.Equal(before, after) {
		t.Errorf("before %q, afterwards %q", before, after)
	}
}

func TestKilledProcessIsSwept(t *testing.T) {
	parent := t.TempDir()
	c := start(t, "hold", parent, "child")
	c.Process.Kill()
	c.Wait()
	// A process of the same communicator's id comes later: it must not find the
	// records of the dead.
	s, err := Private(parent, "comm", "parent")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, found, err := s.Get(t.Context(), "c/x/init"); found || err != nil {
		t.Errorf("the dead process's record: found %v, %v", found, err)
	}
}

func TestPermissionsTakenAway(t *testing.T) {
	dir := t.TempDir()
	program := os.Args[0]
	attr := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		// Root may do everything, so another user has to try.
		const nobody = 65534
		attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		content, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		program = filepath.Join(dir, "test")
		os.WriteFile(program, content, 0o755)
		for d := dir; d != os.TempDir() && len(d) > 1; d = filepath.Dir(d) {
			os.Chmod(d, 0o755)
		}
		dir = filepath.Join(dir, "store")
		os.Mkdir(dir, 0o700)
		os.Chown(dir, nobody, nobody)
	}
	cmd := exec.Command(program)
	cmd.SysProcAttr = attr
	cmd.Env = append(os.Environ(), envRole+"=forbidden", envDir+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Skipf("NOT TESTED: cannot run as another user: %v", err)
	} else if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// The child of an aggregator that has crashed lives on: another process must take over at once.
func TestAggregatorLockIsNotTheChilds(t *testing.T) {
	parent := t.TempDir()
	c := start(t, "aggregate", parent, "child")
	var pid, inherits int
	if _, err := fmt.Sscanf(c.Await(t, "child"), "child %d inherits %d", &pid, &inherits); err != nil || inherits != 1 {
		t.Fatalf("%v, the child inherits %d locks", err, inherits)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	s, err := Private(parent, "comm", "parent")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, ok := s.LockAggregator(); ok {
		t.Error("two processes are the aggregator")
	}
	c.Process.Kill()
	c.Wait()
	stop, ok := s.LockAggregator()
	if !ok {
		t.Fatal("the aggregator has ended, and its child keeps the lock")
	}
	stop()
	if stop, ok = s.LockAggregator(); !ok {
		t.Fatal("the lock was not given back")
	}
	stop()
}
