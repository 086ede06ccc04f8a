package doctor

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
)

// examineJobs counts this user's processes that have a library of ours loaded. One that
// was replaced since stays in them until they end.
func (d *doctor) examineJobs(ctx context.Context) []finding {
	entries, err := os.ReadDir(d.proc)
	if err != nil {
		return nil
	}
	users, old := 0, 0
	for _, e := range entries {
		if ctx.Err() != nil {
			return []finding{d.late("not all processes were looked at")}
		}
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		uses, replaced := loadsTuner(filepath.Join(d.proc, e.Name()))
		if uses {
			users++
		}
		if replaced {
			old++
		}
	}
	processes := strconv.Itoa(users) + cli.Verb(users, " process", " processes")
	switch {
	case old > 0:
		return []finding{noted("restart them when it suits", "the tuner is loaded in %s of yours here, in %d of them an older copy that was replaced since and stays until its process ends", processes, old)}
	case users > 0:
		return []finding{fine("the tuner is loaded in %s of yours here", processes)}
	}
	return nil
}

// loadsTuner reports whether the process of a folder of /proc is this user's and has
// our library loaded, and whether the file has gone since.
func loadsTuner(dir string) (uses, replaced bool) {
	info, err := os.Stat(dir)
	if err != nil {
		return false, false
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Getuid() {
		return false, false
	}
	maps, err := os.Open(filepath.Join(dir, "maps"))
	if err != nil {
		return false, false
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		line := lines.Text()
		at := strings.LastIndexByte(line, '/')
		if at < 0 || !strings.HasPrefix(line[at+1:], strings.TrimSuffix(cli.LibraryName, ".so")) {
			continue
		}
		return true, strings.HasSuffix(line, " (deleted)")
	}
	return false, false
}
