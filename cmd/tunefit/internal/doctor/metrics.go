package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// examineMetrics is about the directory for Prometheus' files, if one is named.
func (d *doctor) examineMetrics(context.Context) (found []finding) {
	dir := d.env.Get(tuner.EnvMetrics)
	if dir == "" {
		return nil
	}
	const do = "make a directory that the job can write to, and name it on every node, or unset the variable; the job runs all the same"
	if !filepath.IsAbs(dir) {
		found = append(found, warned("write the whole path", "%s depends on the folder that each rank starts in", d.env.Show(tuner.EnvMetrics)))
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return append(found, warned(do, "%s: metrics cannot be written, it is not a directory", d.env.Show(tuner.EnvMetrics)))
	}
	var probe *os.File
	if err == nil {
		probe, err = os.CreateTemp(dir, ".tmp-tunefit-doctor-*")
	}
	if at := (*fs.PathError)(nil); errors.As(err, &at) { // the message names it
		err = at.Err
	}
	if err != nil {
		return append(found, warned(do, "%s: metrics cannot be written: %v", d.env.Show(tuner.EnvMetrics), err))
	}
	probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		found = append(found, warned("remove it", "what was put for a probe could not be removed: %v", err))
	}
	if scarce := fileSystemOf(dir).scarce(); scarce != "" {
		found = append(found, warned("make room, or name another directory", "%s is nearly full: %s", dir, scarce))
	}
	if info.Mode()&0o005 != 0o005 {
		found = append(found, noted("chmod o+rx "+dir+", unless node_exporter is in its group", "%s is not for all to read (%s)", dir, info.Mode().Perm()))
	}
	return append(found, fine("%s can be written to; node_exporter needs --collector.textfile.directory=%s", dir, dir))
}
