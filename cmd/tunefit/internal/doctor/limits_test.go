package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A limit on threads that the library would run into is found before a job does: there
// the Go runtime ends the process.
func TestDoctorLimits(t *testing.T) {
	const user, root, admin = "Uid:\t7\t7\t7\t7\nCapEff:\t0000000000000000\n", "Uid:\t0\t0\t0\t0\n",
		"Uid:\t7\t7\t7\t7\nCapEff:\t0000000000200000\n"
	const gone = -1
	for _, c := range []struct {
		name         string
		status       string
		nproc        string
		cgroup       string
		most, parent int // pids.max of the cgroup and of that above it
		want         severity
		words        []string
	}{
		{"ulimit", user, "1000", "", gone, gone, isWarning,
			[]string{"ulimit -u leaves room for 400 more threads (600 of 1000 are there)", "raise it"}},
		{"enough", user, "4096", "", gone, gone, isFine, []string{"there is room"}},
		{"exceeded", user, "100", "", gone, gone, isWarning, []string{"room for 0 more"}},
		{"cgroup", user, "unlimited", "0::/job/step", 300, 9999, isWarning,
			[]string{"job/step/pids.max leaves room for 200 more threads (100 of 300", "TasksMax"}},
		{"cgroup above", root, "100", "0::/job/step", 9999, 300, isWarning,
			[]string{"job/pids.max leaves room for 200"}},
		{"version 1", root, "100", "5:cpu:/x\n4:pids:/job/step\n0::/", 300, gone, isWarning,
			[]string{"pids/job/step/pids.max leaves room"}},
		{"roomy cgroup", root, "100", "0::/job/step", 9999, 9999, isFine, []string{"there is room"}},
		{"root", root, "100", "", gone, gone, isNote, nil},
		{"capability", admin, "100", "", gone, gone, isNote, nil},
		{"unlimited", user, "unlimited", "", gone, gone, isNote, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := testDoctor(t)
			d.cgroups = t.TempDir()
			put := func(path, text string) {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			put(d.proc+"/self/status", c.status)
			put(d.proc+"/self/limits", "Limit  Soft Limit  Hard Limit  Units\nMax processes  "+c.nproc+
				"  unlimited  processes\nMax open files 5 5 files")
			put(d.proc+"/self/cgroup", c.cgroup)
			put(d.proc+"/10/status", "Name:\tx\nThreads:\t250")
			put(d.proc+"/11/status", "Name:\tx\nThreads:\t350")
			for i, most := range []int{c.most, c.parent} {
				dir := d.cgroups + []string{"/job/step", "/job"}[i]
				if c.name == "version 1" {
					dir = d.cgroups + []string{"/pids/job/step", "/pids/job"}[i]
				}
				if most != gone {
					put(dir+"/pids.max", fmt.Sprint(most))
					put(dir+"/pids.current", "100")
				}
			}
			found := d.examine(t.Context(), only("limits"))
			if c.words != nil {
				mustFind(t, found, "limits", c.want, c.words...)
			} else if len(found) > 0 {
				t.Errorf("%v", found)
			}
		})
	}
}
