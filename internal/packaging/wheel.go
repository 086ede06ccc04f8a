package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
)

const python = "configs/packaging/python/"

// wheel writes a wheel as the Python Packaging User Guide specifies it ("Binary distribution format", version 1.0).
// Its tag says which glibc the programs need, whatever they were built with. Installers put what is in scripts where
// the commands are, so tunefit starts without Python.
func (r release) wheel(tree, arch, out string) error {
	minor, err := glibc(tree, arch)
	if err != nil {
		return err
	}
	tag := fmt.Sprintf("py3-none-manylinux_2_%d_%s", minor, machines[arch].wheel)
	dist := "nccl_tuner_go-" + r.version
	var buf bytes.Buffer
	archive := zip.NewWriter(&buf)
	var record bytes.Buffer
	add := func(name string, mode os.FileMode, content []byte) error {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: r.date}
		header.SetMode(mode)
		w, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(content))
		_, err = w.Write(content)
		return err
	}
	copied := func(name, from string, mode os.FileMode) error {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return add(name, mode, content)
	}
	info := dist + ".dist-info/"
	metadata, err1 := os.ReadFile(python + "METADATA")
	module, err2 := os.ReadFile(python + "nccl_tuner_go.py")
	err = errors.Join(err1, err2)
	folders := map[string]string{"lib": "nccl_tuner_go/", "bin": dist + ".data/scripts/"}
	for _, program := range programs {
		folder, name, _ := strings.Cut(program, "/")
		err = errors.Join(err, copied(folders[folder]+name, filepath.Join(tree, program), 0o755))
	}
	if err != nil {
		return err
	}
	// Licences, of what is linked, too, and lists of that, are about the wheel. Pages, and what they link to, are
	// beside the library: pip would leave empty folders elsewhere.
	var licences bytes.Buffer
	share := filepath.Join(tree, "share")
	shared := func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := path[len(share)+1:]
		doc := strings.TrimPrefix(name, "doc/nccl-tuner-go/")
		if list, ok := strings.CutPrefix(doc, "sbom/"); ok {
			return copied(info+"sboms/"+list, path, 0o644)
		}
		licence, linked := strings.CutPrefix(doc, "licenses/")
		if linked || doc == "LICENSE" {
			fmt.Fprintf(&licences, "License-File: %s\n", licence)
			err = copied(info+"licenses/"+licence, path, 0o644)
		}
		if linked || err != nil {
			return err
		}
		file, err := entry.Info()
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if file.Mode()&0o100 != 0 {
			mode = 0o755
		}
		return copied("nccl_tuner_go/share/"+name, path, mode)
	}
	for _, folder := range []string{"doc", "man", "nccl-tuner-go"} {
		if err := filepath.WalkDir(filepath.Join(share, folder), shared); err != nil {
			return err
		}
	}
	fill := strings.NewReplacer("@VERSION@", r.version, "License-File: @FILES@\n", licences.String())
	for _, f := range []struct{ name, content string }{
		{"nccl_tuner_go/__init__.py", fill.Replace(string(module))},
		{info + "METADATA", fill.Replace(string(metadata))},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: nccl-tuner-go\nRoot-Is-Purelib: false\nTag: " + tag + "\n"},
	} {
		if err := add(f.name, 0o644, []byte(f.content)); err != nil {
			return err
		}
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	if err := add(info+"RECORD", 0o644, record.Bytes()); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return safefile.Write(filepath.Join(out, dist+"-"+tag+".whl"), buf.Bytes())
}
