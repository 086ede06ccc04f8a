package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// LibraryName is the tuner library's file.
const LibraryName = "libnccl-tuner-go.so"

// LibraryFlag is --plugin, the tuner library that runs load or that doctor compares with.
type LibraryFlag struct{ Path string }

// Register adds the flag to a command. does completes the sentence "tuner library ...".
func (f *LibraryFlag) Register(cmd *cobra.Command, does string) {
	cmd.Flags().StringVar(&f.Path, "plugin", "", "tuner library "+does+" (default "+LibraryName+
		" beside tunefit or in ../lib)")
}

// Find returns the library's path.
func (f *LibraryFlag) Find() (string, error) {
	if f.Path != "" {
		return f.Path, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	here := filepath.Dir(self)
	for _, path := range []string{filepath.Join(here, LibraryName), filepath.Join(here, "..", "lib", LibraryName)} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s in %s or ../lib beside it; name it with --plugin", LibraryName, here)
}
