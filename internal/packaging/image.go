package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
)

// An object becomes a JSON object, with its keys sorted. So the same input gives the same bytes and digests.
type object = map[string]any

const media = "application/vnd.oci.image."

// image writes an image layout as the Open Container Initiative's image specification 1.1 has it, as a tar file. It is
// an index of images from scratch: one for each "ARCH=ROOT", with one layer, the files in ROOT.
func (r release) image(out string, roots []string) error {
	blobs := map[string][]byte{}
	blob := func(kind string, content []byte) object {
		sum := fmt.Sprintf("%x", sha256.Sum256(content))
		blobs["blobs/sha256/"+sum] = content
		return object{"mediaType": media + kind, "digest": "sha256:" + sum, "size": len(content)}
	}
	document := func(kind string, o object) object {
		content, err := json.Marshal(o)
		if err != nil {
			panic(err) // all of it is ours
		}
		return blob(kind, content)
	}
	var manifests []object
	for _, root := range roots {
		arch, dir, _ := strings.Cut(root, "=")
		layer, err := r.layer(dir)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(layer); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		config := document("config.v1+json", object{
			"created": r.date, "architecture": arch, "os": "linux",
			"config": object{"Entrypoint": []string{"/copy"}},
			"rootfs": object{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
		})
		manifest := document("manifest.v1+json", object{
			"schemaVersion": 2, "mediaType": media + "manifest.v1+json",
			"config": config, "layers": []object{blob("layer.v1.tar+gzip", packed.Bytes())},
			"annotations": object{
				"org.opencontainers.image.version":  r.version,
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		})
		manifest["platform"] = object{"architecture": arch, "os": "linux"}
		manifests = append(manifests, manifest)
	}
	index := func(of []object) object {
		return object{"schemaVersion": 2, "mediaType": media + "index.v1+json", "manifests": of}
	}
	all := document("index.v1+json", index(manifests))
	all["annotations"] = object{"org.opencontainers.image.ref.name": r.version}
	top, err := json.Marshal(index([]object{all}))
	if err != nil {
		return err
	}
	blobs["index.json"] = top
	blobs["oci-layout"] = []byte(`{"imageLayoutVersion":"1.0.0"}`)

	var buf bytes.Buffer
	archive := tar.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(blobs)) {
		header := tar.Header{Name: name, Mode: 0o644, Size: int64(len(blobs[name])), ModTime: r.date}
		if err := archive.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := archive.Write(blobs[name]); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return safefile.Write(out, buf.Bytes())
}

// layer returns the folders and files below dir as a tar file: root's, and of the release's date.
func (r release) layer(dir string) ([]byte, error) {
	var buf bytes.Buffer
	archive := tar.NewWriter(&buf)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		header := &tar.Header{Name: path[len(dir)+1:], Mode: int64(info.Mode().Perm()), ModTime: r.date}
		if entry.IsDir() {
			header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
			return archive.WriteHeader(header)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		header.Size = int64(len(content))
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	err = errors.Join(err, archive.Close())
	return buf.Bytes(), err
}
