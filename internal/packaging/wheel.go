package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/atomicfile"
)

const (
	pythonFiles = "configs/packaging/python/"
	licence     = "LICENSE"
)

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
	for _, f := range []struct {
		name, from string
		mode       os.FileMode
	}{
		{"nccl_tuner_go/__init__.py", pythonFiles + "nccl_tuner_go.py", 0o644},
		{"nccl_tuner_go/libnccl-tuner-go.so", filepath.Join(tree, programs[0]), 0o755},
		{dist + ".data/scripts/tunefit", filepath.Join(tree, programs[1]), 0o755},
		{dist + ".dist-info/licenses/LICENSE", licence, 0o644},
		{dist + ".dist-info/METADATA", pythonFiles + "METADATA", 0o644},
	} {
		content, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		if strings.HasPrefix(f.from, pythonFiles) {
			content = bytes.ReplaceAll(content, []byte("@VERSION@"), []byte(r.version))
		}
		if err := add(f.name, f.mode, content); err != nil {
			return err
		}
	}
	about := "Wheel-Version: 1.0\nGenerator: nccl-tuner-go\nRoot-Is-Purelib: false\nTag: " + tag + "\n"
	if err := add(dist+".dist-info/WHEEL", 0o644, []byte(about)); err != nil {
		return err
	}
	fmt.Fprintf(&record, "%s.dist-info/RECORD,,\n", dist)
	if err := add(dist+".dist-info/RECORD", 0o644, record.Bytes()); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(out, dist+"-"+tag+".whl"), buf.Bytes())
}
