package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// profilerVariable names the library whose profiler half NCCL loads.
const profilerVariable = "NCCL_PROFILER_PLUGIN"

// examineRecord is about the directory for what is found out about the job, if one is named.
func (d *doctor) examineRecord(context.Context) (found []finding) {
	dir, profiler := d.env.Get(tuner.EnvRecord), d.env.Get(profilerVariable)
	if dir == "" {
		return nil
	}
	compares := d.env.Get(tuner.EnvCompare) != "" || d.env.Get(tuner.EnvCanary) == "1"
	switch {
	case profiler == "" && !compares:
		found = append(found, warned("set "+profilerVariable+" to the tuner's library, too; or "+tuner.EnvCompare+", if comparisons are meant",
			"%s stays empty: %s is not set, and no versions are compared", d.env.Show(tuner.EnvRecord), profilerVariable))
	case strings.Contains(profiler, "/"):
		if _, err := os.Stat(profiler); err != nil {
			found = append(found, warned("name the tuner's library", "%s: %v; calls are not recorded", d.env.Show(profilerVariable), err))
		}
	}
	if !filepath.IsAbs(dir) {
		found = append(found, warned("write the whole path", "%s depends on the folder that each rank starts in", d.env.Show(tuner.EnvRecord)))
	}
	there := filepath.Clean(dir) // the job makes what is missing
	for _, err := os.Stat(there); os.IsNotExist(err) && there != filepath.Dir(there); _, err = os.Stat(there) {
		there = filepath.Dir(there)
	}
	of, err := tryWriting(there)
	if err != nil {
		return append(found, warned("name a directory that the job can write to or make; the job runs all the same", "%s: nothing is kept there: %s: %v", d.env.Show(tuner.EnvRecord), there, err))
	}
	found = append(found, of...)
	if there != filepath.Clean(dir) {
		return append(found, fine("%s is made by the job", dir))
	}
	return append(found, fine("%s can be written to", dir))
}
