package packaging

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const packaging = "../../configs/packaging/"

// The lines come and go once, whatever else /etc/nccl.conf has.
func TestActivate(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "nccl.conf")
	run := func(name string, args ...string) {
		t.Helper()
		text, err := os.ReadFile(packaging + "activate/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "/etc/nccl.conf)") {
			t.Fatalf("%s does not use /etc/nccl.conf", name)
		}
		script := strings.ReplaceAll(string(text), "/etc/nccl.conf)", conf+")")
		if out, err := exec.Command("sh", append([]string{"-c", script, name}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	read := func() string {
		text, err := os.ReadFile(conf)
		if err != nil {
			return "no file"
		}
		return string(text)
	}
	const lines = "# begin of nccl-tuner-go-activate, which removes these lines when it is removed\n" +
		"NCCL_TUNER_PLUGIN=go\nNCCL_TUNER_CONFIG_FILE=/etc/nccl-tuner-go/policy.csv\nNCCL_DEBUG=WARN\n" +
		"# end of nccl-tuner-go-activate\n"
	for _, test := range []struct{ name, before, with, after string }{
		{"no file", "no file", lines, "no file"},
		{"others' lines", "NCCL_DEBUG=WARN\n\n", "NCCL_DEBUG=WARN\n\n" + lines, "NCCL_DEBUG=WARN\n\n"},
		{"last line without its end", "NCCL_DEBUG=WARN", "NCCL_DEBUG=WARN\n" + lines, "NCCL_DEBUG=WARN\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			os.Remove(conf)
			if test.before != "no file" {
				if err := os.WriteFile(conf, []byte(test.before), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			for _, arg := range []string{"configure", "2"} { // installed, then upgraded
				run("add.sh", arg)
				if got := read(); got != test.with {
					t.Errorf("%s: %q, want %q", arg, got, test.with)
				}
			}
			for _, arg := range []string{"upgrade", "1"} {
				run("remove.sh", arg)
				if got := read(); got != test.with {
					t.Errorf("%s: %q, want %q", arg, got, test.with)
				}
			}
			run("remove.sh", "remove")
			if got := read(); got != test.after {
				t.Errorf("removed: %q, want %q", got, test.after)
			}
			if info, err := os.Stat(conf); err == nil && info.Mode().Perm() != 0o640 {
				t.Errorf("the mode is %v", info.Mode())
			}
		})
	}
	t.Run("the administrator writes below and takes the end out", func(t *testing.T) {
		os.Remove(conf)
		run("add.sh", "configure")
		if err := os.WriteFile(conf, []byte(read()+"NCCL_DEBUG=INFO\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		run("remove.sh", "0")
		if got := read(); got != "NCCL_DEBUG=INFO\n" {
			t.Errorf("%q", got)
		}
		cut := strings.Replace(lines, "# end of nccl-tuner-go-activate\n", "NCCL_DEBUG=INFO\n", 1)
		if err := os.WriteFile(conf, []byte(cut), 0o644); err != nil {
			t.Fatal(err)
		}
		run("remove.sh", "0")
		if got := read(); got != cut {
			t.Errorf("%q", got)
		}
	})
	t.Run("a link stays", func(t *testing.T) {
		os.Remove(conf)
		site := filepath.Join(dir, "site.conf")
		if err := os.Symlink(site, conf); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(site, []byte("NCCL_DEBUG=WARN\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		run("add.sh", "configure")
		if to, err := os.Readlink(conf); to != site || read() != "NCCL_DEBUG=WARN\n"+lines {
			t.Errorf("%q, %v, %q", to, err, read())
		}
	})
	if left, _ := filepath.Glob(conf + ".*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// dpkg removes /opt where it is empty, and the script that it runs then brings it back. NCCL's loader is told.
func TestOptStays(t *testing.T) {
	root := t.TempDir()
	loader := filepath.Join(root, "ldconfig")
	if err := os.WriteFile(loader, []byte("#!/bin/sh\ntouch "+root+"/told\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		cmd := exec.Command("sh", packaging+"ldconfig.sh", "remove")
		cmd.Env = append(os.Environ(), "PATH="+root+":"+os.Getenv("PATH"), "DPKG_ROOT="+root)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, name := range []string{"opt", "told"} {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Error(err)
			}
		}
	}
}

// What to source and Slurm's prolog set what is not set yet. bash knows the tree's place, sh takes it to be /opt.
func TestSetEnvironment(t *testing.T) {
	script, err := filepath.Abs(packaging + "share/set_nccl_env.sh")
	if err != nil {
		t.Fatal(err)
	}
	here := filepath.Dir(filepath.Dir(script)) + "/lib/libnccl-tuner-go.so"
	prolog := filepath.Join(filepath.Dir(script), "task_prolog.sh")
	for _, test := range []struct {
		set     string
		command []string
		want    string
	}{
		{"A=1", []string{"sh", "-uc", ". " + script + "; env"},
			"NCCL_TUNER_PLUGIN=/opt/nccl-tuner-go/lib/libnccl-tuner-go.so"},
		{"A=1", []string{"bash", "-uc", ". " + script + "; env"}, "NCCL_TUNER_PLUGIN=" + here},
		{"NCCL_TUNER_PLUGIN=mine", []string{"bash", "-uc", ". " + script + "; env"}, "NCCL_TUNER_PLUGIN=mine"},
		{"A=1", []string{prolog}, "export NCCL_TUNER_PLUGIN=" + here},
		{"NCCL_TUNER_CONFIG_FILE=/mine.csv", []string{prolog}, "export NCCL_TUNER_CONFIG_FILE=/mine.csv"},
	} {
		cmd := exec.Command(test.command[0], test.command[1:]...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), test.set}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains("\n"+string(out), "\n"+test.want+"\n") || strings.Contains(string(out), "_root") {
			t.Errorf("%s %q: %v: %s, want %s", test.set, test.command, err, out, test.want)
		}
	}
}

func TestEnable(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("SKIPPED: there is no python3: THE PYTHON PACKAGE IS NOT TESTED")
	}
	module, err1 := filepath.Abs(packaging + "python")
	variables, err2 := filepath.Abs("../../docs/VARIABLES.md")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-B", "testdata/enable_test.py")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+module, "VARIABLES="+variables)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "\nRan 9 tests ") {
		t.Errorf("%v: %s", err, out)
	}
}
