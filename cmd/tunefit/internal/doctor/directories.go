package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// profilerVariable names the library whose profiler half NCCL loads.
const profilerVariable = "NCCL_PROFILER_PLUGIN"

// examineMetrics looks at the directory for Prometheus' files, if one is named.
func (d *doctor) examineMetrics(context.Context) []Finding {
	dir := d.env.Get(tuner.EnvMetrics)
	if dir == "" {
		return nil
	}
	found := d.relative(tuner.EnvMetrics)
	of, err := tryWriting(dir)
	if err != nil {
		const do = "make a directory that the job can write to, and name it on every node, or unset the variable; " +
			"the job runs all the same"
		return append(found, warned(do, "%s: metrics cannot be written: %v", d.env.Show(tuner.EnvMetrics), err))
	}
	found = append(found, of...)
	if info, err := os.Stat(dir); err == nil && info.Mode()&0o005 != 0o005 {
		found = append(found, noted("chmod o+rx "+dir+", unless node_exporter is in its group",
			"not everybody can read %s (%s)", dir, info.Mode().Perm()))
	}
	return append(found, fine("%s can be written to; node_exporter needs --collector.textfile.directory=%s", dir, dir))
}

// examineRecord looks at the directory for what the job records about itself, if one is named.
func (d *doctor) examineRecord(context.Context) (found []Finding) {
	dir, profiler := d.env.Get(tuner.EnvRecord), d.env.Get(profilerVariable)
	if dir == "" {
		return nil
	}
	compares := d.env.Get(tuner.EnvCompare) != "" || d.env.Get(tuner.EnvCanary) == "1"
	switch {
	case profiler == "" && !compares:
		found = append(found, warned("set "+profilerVariable+" to the tuner's library, too; or "+tuner.EnvCompare+
			", if comparisons are meant",
			"%s stays empty: %s is not set, and no versions are compared", d.env.Show(tuner.EnvRecord),
			profilerVariable))
	case strings.Contains(profiler, "/"):
		if _, err := os.Stat(profiler); err != nil {
			found = append(found, warned("name the tuner's library", "%s: %v; calls are not recorded",
				d.env.Show(profilerVariable), err))
		}
	}
	found = append(found, d.relative(tuner.EnvRecord)...)
	there := filepath.Clean(dir) // the job makes missing folders
	for _, err := os.Stat(there); os.IsNotExist(err) && there != filepath.Dir(there); _, err = os.Stat(there) {
		there = filepath.Dir(there)
	}
	of, err := tryWriting(there)
	if err != nil {
		return append(found, warned("name a directory that the job can write to or make; the job runs all the same",
			"%s: nothing is kept there: %s: %v", d.env.Show(tuner.EnvRecord), there, err))
	}
	found = append(found, of...)
	if there != filepath.Clean(dir) {
		return append(found, fine("the job makes %s", dir))
	}
	return append(found, fine("%s can be written to", dir))
}

// relative warns of a variable with a relative path.
func (d *doctor) relative(variable string) []Finding {
	if filepath.IsAbs(d.env.Get(variable)) {
		return nil
	}
	return []Finding{warned("write an absolute path", "%s depends on the folder that each rank starts in",
		d.env.Show(variable))}
}

// writable warns of a file, and of the folder that it is in, if every user can change them.
func writable(file, consequence string) (found []Finding) {
	for _, path := range []string{file, filepath.Dir(file)} {
		info, err := os.Stat(path)
		if err == nil && info.Mode().Perm()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
			found = append(found, warned("chmod o-w "+path, "anybody can write %s, and so %s", path, consequence))
		}
	}
	return found
}

// tryWriting creates a file in a directory, as the job would, and removes it. An error says why it cannot. found has a
// warning if there is little room.
func tryWriting(dir string) (found []Finding, err error) {
	info, err := os.Stat(dir)
	var probe *os.File
	switch {
	case err != nil:
	case !info.IsDir():
		return nil, errors.New("it is not a directory")
	default:
		probe, err = os.CreateTemp(dir, ".tmp-tunefit-doctor-*")
	}
	if err != nil {
		return nil, safefile.Reason(err)
	}
	probe.Close()
	os.Remove(probe.Name())
	if scarce := fileSystemOf(dir).scarce(); scarce != "" {
		found = append(found, warned("make room, or name another directory", "%s is nearly full: %s", dir, scarce))
	}
	return found, nil
}
