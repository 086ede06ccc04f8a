package packaging

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// These tests install what `make packages` has made, use it, remove it, and look for what is left. `make packages-check`
// runs them.

// find returns the package of this machine's architecture that a pattern names.
func find(t *testing.T, pattern string) string {
	t.Helper()
	dir := os.Getenv("PACKAGES")
	if dir == "" {
		t.Skip("SKIPPED: make packages-check runs this test: NO PACKAGE IS INSTALLED")
	}
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

// arch is this machine's, in the words of Python and rpm.
func arch() string { return map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] }

// need skips a test where a program is missing, or the right to use it.
func need(t *testing.T, root bool, debian string, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: there is no %s here (Debian: %s): NOTHING IS TESTED WITH IT", program, debian)
		}
	}
	if root && exec.Command("unshare", "--mount", "true").Run() != nil {
		t.Skipf("SKIPPED: only root can use %s: NOTHING IS TESTED WITH IT", programs[0])
	}
}

func do(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// files maps each path below dir to its mode and content or target. What package managers keep for themselves is left
// out.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := path[len(dir):]
		if slices.Contains([]string{"/var/lib/dpkg", "/var/cache/ldconfig", "/root/.rpmdb", "/proc"}, name) {
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content := []byte{}
		switch {
		case info.Mode().IsRegular():
			content, err = os.ReadFile(path)
		case info.Mode()&fs.ModeSymlink != 0:
			var target string
			target, err = os.Readlink(path)
			content = []byte(target)
		}
		found[name] = fmt.Sprint(info.Mode(), string(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// same reports paths that are in one of two maps only, or differ.
func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(got)) {
		if old, ok := want[path]; !ok {
			t.Errorf("%s: %s is left", what, path)
		} else if old != got[path] {
			t.Errorf("%s: %s has changed", what, path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[path]; !ok {
			t.Errorf("%s: %s is gone", what, path)
		}
	}
}

// deb and rpm in a root of Debian: the loader finds the library by its name, and tunefit finds what /etc/nccl.conf names.
func TestSystemPackages(t *testing.T) {
	find(t, "")
	need(t, true, "debootstrap rpm", "debootstrap", "rpm", "dpkg")
	base, err := filepath.Abs("../../build/debian")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(base); err != nil { // takes minutes: kept until make clean
		do(t, "rm", "-rf", base+".new")
		do(t, "debootstrap", "--variant=minbase", "stable", base+".new")
		do(t, "mv", base+".new", base)
	}
	root := filepath.Join(t.TempDir(), "root")
	do(t, "cp", "-a", base, root)
	in := func(t *testing.T, args ...string) string {
		t.Helper()
		return do(t, "unshare", append([]string{"--mount", "sh", "-c",
			`mount --bind /proc "$0/proc"; exec env -i PATH=/usr/sbin:/usr/bin NCCL_DEBUG=WARN chroot "$0" "$@"`, root}, args...)...)
	}
	in(t, "sh", "-c", "echo NCCL_SOCKET_IFNAME=eth0 >/etc/nccl.conf; ldconfig")
	before := files(t, root)
	for _, kind := range []struct {
		name             string
		packages         []string
		install, removal []string
	}{
		{"deb", []string{"nccl-tuner-go_*_" + runtime.GOARCH + ".deb", "nccl-tuner-go-activate_*.deb"},
			[]string{"dpkg", "--root", root, "--install"}, []string{"dpkg", "--root", root, "--purge"}},
		// To rpm there is no glibc: it is Debian's.
		{"rpm", []string{"nccl-tuner-go-[0-9]*." + arch() + ".rpm", "nccl-tuner-go-activate-*.rpm"},
			[]string{"rpm", "--root", root, "--nodeps", "--install"}, []string{"rpm", "--root", root, "--erase"}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			do(t, kind.install[0], append(kind.install[1:], find(t, kind.packages[0]))...)
			for _, name := range []string{"libnccl-tuner-go.so", "libnccl-tuner-go-etcd.so"} {
				if out := in(t, "env", "LD_PRELOAD="+name, "true"); out != "" {
					t.Errorf("the loader does not find %s: %s", name, out)
				}
			}
			for path := range files(t, root) {
				switch filepath.Base(path) {
				case "libnccl-tuner.so", "libnccl-env.so", "libnccl-net.so", "libnccl-profiler.so":
					t.Errorf("NCCL loads %s by itself", path)
				}
			}
			only := files(t, root)
			do(t, kind.install[0], append(kind.install[1:], find(t, kind.packages[1]))...)
			in(t, "sh", "-c", `printf 'collective,algorithm\nallreduce,tree\n' >/etc/nccl-tuner-go/policy.csv`)
			out := in(t, "sh", "-c", "tunefit doctor || true") // it warns where a busy machine loads slowly
			for _, want := range []string{
				"/etc/nccl.conf sets NCCL_SOCKET_IFNAME, NCCL_TUNER_PLUGIN, NCCL_TUNER_CONFIG_FILE",
				" /etc/nccl-tuner-go/policy.csv, 1 row"} {
				if !strings.Contains(out, want) {
					t.Errorf("doctor does not say %q: %s", want, out)
				}
			}
			out = in(t, "sh", "-c", "NCCL_TUNER_PLUGIN=go-etcd tunefit-etcd doctor || true")
			if !strings.Contains(out, "/libnccl-tuner-go-etcd.so, ") || !strings.Contains(out, ", with etcd") {
				t.Errorf("doctor does not find the library with etcd: %s", out)
			}
			in(t, "rm", "/etc/nccl-tuner-go/policy.csv")
			do(t, kind.removal[0], append(kind.removal[1:], "nccl-tuner-go-activate")...)
			same(t, "without nccl-tuner-go-activate", files(t, root), only)
			do(t, kind.removal[0], append(kind.removal[1:], "nccl-tuner-go")...)
			same(t, "without nccl-tuner-go", files(t, root), before)
		})
	}
}

// listed reports where a wheel's list of files, which pip does not check, is not what the wheel has.
func listed(t *testing.T, wheel string) {
	t.Helper()
	archive, err := zip.OpenReader(wheel)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var record string
	want := map[string]string{}
	for _, file := range archive.File {
		r, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		want[file.Name] = fmt.Sprintf("sha256=%s,%d", base64.RawURLEncoding.EncodeToString(sum[:]), len(content))
		if strings.HasSuffix(file.Name, ".dist-info/RECORD") {
			want[file.Name], record = ",", string(content)
		}
	}
	got := map[string]string{}
	for line := range strings.Lines(record) {
		name, about, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ",")
		got[name] = about
	}
	same(t, "RECORD", got, want)
}

// What pip has installed works, and goes.
func TestWheel(t *testing.T) {
	wheel := find(t, "*_"+arch()+".whl")
	listed(t, wheel)
	need(t, false, "python3-venv", "python3")
	venv := filepath.Join(t.TempDir(), "venv")
	do(t, "python3", "-m", "venv", venv)
	python := venv + "/bin/python"
	before := files(t, venv)
	pip := []string{"-m", "pip", "-q", "--disable-pip-version-check"}
	do(t, python, append(pip, "install", "--no-index", "--no-compile", wheel)...)
	do(t, python, "-Bc", `import ctypes, nccl_tuner_go as n, os
assert n.enable() == {"NCCL_TUNER_PLUGIN": n.library}
ctypes.CDLL(n.library).tunergoVersion
del os.environ["NCCL_TUNER_PLUGIN"]
ctypes.CDLL(n.enable(rendezvous="etcd://127.0.0.1:2379/job")["NCCL_TUNER_PLUGIN"]).tunergoVersion`)
	do(t, venv+"/bin/tunefit-etcd", "--version")
	do(t, python, "-Bc", `import nccl_tuner_go, os
for name in "doc/nccl-tuner-go/docs/INSTALL.md", "man/man1/tunefit.1", "nccl-tuner-go/recipes/site.sh":
    os.stat(os.path.join(nccl_tuner_go.__path__[0], "share", name))`)
	version := strings.Fields(do(t, venv+"/bin/tunefit", "--version"))[2]
	if !strings.Contains(filepath.Base(wheel), "-"+version+"-") ||
		do(t, python, "-Bc", "import nccl_tuner_go; print(nccl_tuner_go.__version__)") != version+"\n" {
		t.Errorf("%s has version %s", wheel, version)
	}
	do(t, python, append(pip, "check")...)
	do(t, python, append(pip, "uninstall", "-y", "nccl-tuner-go")...)
	same(t, "uninstalled", files(t, venv), before)
}

// Tools of others read the image; its program copies all that it has.
func TestImage(t *testing.T) {
	image := find(t, "*-oci.tar")
	need(t, true, "skopeo umoci", "skopeo", "umoci")
	dir := t.TempDir()
	do(t, "skopeo", "copy", "oci-archive:"+image, "oci:"+dir+"/layout:tuner")
	do(t, "umoci", "unpack", "--image", dir+"/layout:tuner", dir+"/bundle")
	root := dir + "/bundle/rootfs"
	do(t, "chroot", root, "/copy", "/to/here")
	same(t, "copied", files(t, root+"/to/here"), files(t, root+"/opt/nccl-tuner-go"))
	same(t, "in the image", files(t, root+"/opt/nccl-tuner-go"),
		files(t, filepath.Join(os.Getenv("PACKAGES"), "roots", runtime.GOARCH, "opt/nccl-tuner-go")))
}

func TestModule(t *testing.T) {
	tree := find(t, "roots/"+runtime.GOARCH) + "/opt/nccl-tuner-go"
	need(t, false, "environment-modules", "modulecmd")
	load := func(what ...string) string {
		t.Helper()
		cmd := exec.Command("modulecmd", append([]string{"sh"}, what...)...)
		cmd.Env = append(os.Environ(), "MODULEPATH="+tree+"/share/modulefiles")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	out := load("load", "nccl-tuner-go")
	for _, want := range []string{"NCCL_TUNER_PLUGIN=" + tree + "/lib/libnccl-tuner-go.so;", "PATH=" + tree + "/bin:"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s, want %s", out, want)
		}
	}
}

// Another time, other permissions and dates of files: the same packages.
func TestReproducible(t *testing.T) {
	packages := filepath.Dir(find(t, "roots"))
	trees := filepath.Join(t.TempDir(), "dist")
	do(t, "cp", "-R", "../../build/dist", trees)
	roots, err := filepath.Glob(trees + "/root-*")
	if err != nil || len(roots) == 0 {
		t.Fatalf("%v, %v", roots, err)
	}
	cmd := exec.Command("sh", append([]string{"-c", `umask 077; exec "$0" "$@"`, packaging + "build.sh"}, roots...)...)
	out := t.TempDir()
	cmd.Env = append(os.Environ(), "OUT="+out)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	first, err := os.ReadDir(packages)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range first {
		if entry.IsDir() {
			continue
		}
		one, err1 := os.ReadFile(filepath.Join(packages, entry.Name()))
		two, err2 := os.ReadFile(filepath.Join(out, entry.Name()))
		if err1 != nil || err2 != nil || !bytes.Equal(one, two) {
			t.Errorf("%s differs: %v, %v", entry.Name(), err1, err2)
		}
	}
}
