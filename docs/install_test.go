//go:build cgo

package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// installed lists the files below a folder, and checks that all may read them.
func installed(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && path != dir && info.Mode()&0o044 != 0o044 {
			t.Errorf("%s: not everybody may read it: %v", path, info.Mode())
		}
		if !d.IsDir() {
			files = append(files, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// What make install puts somewhere is complete, for all users, and make uninstall takes all of it away.
func TestInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	home, dir := t.TempDir(), t.TempDir()
	make := func(target string) { shell(t, home, "umask 077; make -s "+target+" DESTDIR="+dir+" PREFIX=/prefix") }
	make("install")
	found := installed(t, dir)
	for _, want := range []string{"bin/tunefit", "lib/libnccl-tuner-go.so", "share/doc/nccl-tuner-go/LICENSE",
		"share/nccl-tuner-go/recipes/train.sbatch", "share/nccl-tuner-go/recipes/site.sh",
		"share/nccl-tuner-go/policies/example.csv",
		"share/bash-completion/completions/tunefit"} {
		if !strings.Contains(fmt.Sprintf("%q", found), `"prefix/`+want+`"`) {
			t.Errorf("make install leaves no %s, but %q", want, found)
		}
	}
	share := filepath.Join(dir, "prefix/share")
	carried := map[string]string{} // all pages, by their path in share
	for _, file := range found {
		if name, ok := strings.CutPrefix(file, "prefix/share/"); ok && strings.HasSuffix(name, ".md") {
			text, err := os.ReadFile(filepath.Join(share, name))
			if err != nil {
				t.Fatal(err)
			}
			carried[name] = string(text)
		}
	}
	followLinks(t, share, carried)
	users, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range users {
		if carried["doc/nccl-tuner-go/docs/"+page] == "" {
			t.Errorf("make install leaves no docs/%s", page)
		}
	}
	for page, parts := range map[string][]string{
		"doc/nccl-tuner-go/README.md": {"](docs/measured/allreduce-1x8.svg)", "](docs/LIMITS.md#channels)",
			"[recipes](../../nccl-tuner-go/recipes)",
			"of half of the sizes in published\nmeasurements, and"},
		"doc/nccl-tuner-go/docs/INSTALL.md": {"](../README.md#install-on-a-cluster)", "](../../../nccl-tuner-go/recipes/train.sbatch)"},
		"doc/nccl-tuner-go/docs/README.md":  {"| measured | measurements |"},
		"nccl-tuner-go/policies/README.md":  {"](../../doc/nccl-tuner-go/docs/SWEEP.md)", "](example.csv)"},
	} {
		for _, part := range parts {
			if !strings.Contains(carried[page], part) {
				t.Errorf("%s has no %q", page, part)
			}
		}
	}
	for page, parts := range map[string][]string{
		"man1/tunefit.1":             {`.TH "TUNEFIT" 1`, ".SH COMMANDS\n", `\fBtunefit\-fit\fP(1)`},
		"man1/tunefit-topo-graphs.1": {".SH OPTIONS\n", `\-\-json`, ".SH EXIT STATUS\n", ".SH FILES\n", `\fBtunefit\-topo\fP(1)`},
		"man7/libnccl-tuner-go.7":    {".TH LIBNCCL-TUNER-GO 7", ".B NCCL_TUNER_CONFIG_FILE\n", ".B NCCL_TUNER_LEARN\n"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, "prefix/share/man", page))
		if err != nil {
			t.Error(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s has no %q:\n%.2000s", page, part, text)
			}
		}
	}
	shell(t, home, "bash -n "+dir+"/prefix/share/bash-completion/completions/tunefit")
	shell(t, home, dir+"/prefix/bin/tunefit --version")

	make("uninstall")
	if left := installed(t, dir); len(left) > 0 {
		t.Errorf("make uninstall leaves %q", left)
	}
	if _, err := os.Stat(filepath.Join(dir, "prefix/share/nccl-tuner-go")); err == nil {
		t.Error("make uninstall leaves the folder share/nccl-tuner-go")
	}
}
