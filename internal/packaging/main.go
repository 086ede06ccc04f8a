// Command packaging writes what nfpm does not: the Python wheel and the container image. It also tells which glibc the
// built files need. configs/packaging/build.sh runs it, with VERSION and SOURCE_DATE_EPOCH set.
//
// The same files give the same wheel and image: all times are that of the commit.
package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const usage = `usage: packaging glibc TREE ARCH: prints the release of glibc that the files in TREE need
       packaging wheel TREE ARCH OUT: writes a wheel into the folder OUT
       packaging image OUT ARCH=ROOT...: writes an OCI image layout, whose layers hold ROOT, into the file OUT`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil || os.Getenv("VERSION") == "" {
		return errors.New("VERSION and SOURCE_DATE_EPOCH must be set, to the release and to seconds since 1970")
	}
	r := release{version: os.Getenv("VERSION"), date: time.Unix(seconds, 0).UTC()}
	switch {
	case len(args) == 3 && args[0] == "glibc":
		minor, err := glibc(args[1], args[2])
		if err == nil {
			fmt.Printf("2.%d\n", minor)
		}
		return err
	case len(args) == 4 && args[0] == "wheel":
		return r.wheel(args[1], args[2], args[3])
	case len(args) > 2 && args[0] == "image":
		return r.image(args[1], args[2:])
	}
	return errors.New(usage)
}

// A release is what all packages of a build have in common.
type release struct {
	version string
	date    time.Time
}

// The files of a tree that are programs.
var programs = []string{"lib/libnccl-tuner-go.so", "lib/libnccl-tuner-go-etcd.so", "bin/tunefit", "bin/tunefit-etcd"}

// machines has the names of a processor: ELF's, and that of Python's wheels.
var machines = map[string]struct {
	elf   elf.Machine
	wheel string
}{
	"amd64": {elf.EM_X86_64, "x86_64"},
	"arm64": {elf.EM_AARCH64, "aarch64"},
}

// glibc returns N of the release 2.N of glibc that the programs of a tree need: of their symbols' versions the highest,
// at least 17, the oldest that a wheel can name. The programs must be of the architecture, in Go's words.
func glibc(tree, arch string) (minor int, err error) {
	machine, ok := machines[arch]
	if !ok {
		return 0, fmt.Errorf("%s: the architecture is %q (allowed: amd64, arm64)", tree, arch)
	}
	minor = 17
	for _, program := range programs {
		name := filepath.Join(tree, program)
		file, err := elf.Open(name)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		defer file.Close()
		if file.Machine != machine.elf {
			return 0, fmt.Errorf("%s is for %s, not for %s", name, file.Machine, arch)
		}
		symbols, err := file.ImportedSymbols()
		if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		for _, s := range symbols {
			version, of := strings.CutPrefix(s.Version, "GLIBC_2.")
			if !of {
				continue
			}
			version, _, _ = strings.Cut(version, ".") // such as 2.2.5
			n, err := strconv.Atoi(version)
			if err != nil {
				return 0, fmt.Errorf("%s: %s has the version %s", name, s.Name, s.Version)
			}
			minor = max(minor, n)
		}
	}
	return minor, nil
}
