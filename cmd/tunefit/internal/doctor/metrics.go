package doctor

import (
	"context"
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
	of, err := tryWriting(dir)
	if err != nil {
		return append(found, warned(do, "%s: metrics cannot be written: %v", d.env.Show(tuner.EnvMetrics), err))
	}
	found = append(found, of...)
	if info, err := os.Stat(dir); err == nil && info.Mode()&0o005 != 0o005 {
		found = append(found, noted("chmod o+rx "+dir+", unless node_exporter is in its group", "%s is not for all to read (%s)", dir, info.Mode().Perm()))
	}
	return append(found, fine("%s can be written to; node_exporter needs --collector.textfile.directory=%s", dir, dir))
}
