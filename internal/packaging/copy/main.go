// Command copy copies the files of /opt/nccl-tuner-go to the folder that it is given. It is the program of the
// container image, which has no shell: a DaemonSet copies to the host with it, an init container to a volume.
package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
)

const tree = "/opt/nccl-tuner-go"

func main() {
	if len(os.Args) != 2 || !filepath.IsAbs(os.Args[1]) {
		fmt.Fprintln(os.Stderr, "usage: copy FOLDER: an absolute path, for the files of "+tree)
		os.Exit(2)
	}
	if err := copyTree(tree, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(tree + " is copied to " + os.Args[1])
}

// copyTree replaces files and never changes their content: a running job may have the old library mapped.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := to + path[len(from):]
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := safefile.WriteDurable(target, func(w io.Writer) error {
			_, err := io.Copy(w, file)
			return err
		}); err != nil {
			return err
		}
		return os.Chmod(target, info.Mode().Perm())
	})
}
