package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
)

// examineCPU names who made the CPUs, for Across to compare nodes by. NCCL's estimates and its search for channels
// depend on it.
func (d *doctor) examineCPU(_ context.Context, r *report) {
	_, rest, _ := strings.Cut("\n"+textOf(d.proc, "cpuinfo"), "\nvendor_id")
	vendor, _, _ := strings.Cut(rest, "\n")
	if vendor = strings.Trim(vendor, "\t :"); vendor != "" { // only x86 names one
		vendor = ", " + vendor
	}
	r.fine("%s%s", processor(machines[runtime.GOARCH]), vendor)
}

func (d *doctor) examineTopology(ctx context.Context, r *report) {
	m, f := d.machine(), d.files()
	needed := policy.NeedsTopology(f.compiled, f.fitted)
	took := m.Took.Round(time.Millisecond)
	var syntax *topo.SyntaxError
	var none *detect.NoGPUError
	switch {
	case errors.As(m.Err, &syntax):
		r.fail("write it as NCCL does: tunefit topo --dump, or NCCL_TOPO_DUMP_FILE",
			"the topology file is refused, by NCCL's own reader, too: %v", m.Err)
	case m.Err == nil:
		r.fine("%s (%s, %v); fingerprint %s", m.Here.Summary, m.From, took, m.Here.Fingerprint)
		if m.From.Hosts > 1 {
			r.warn("write it on one node, with tunefit topo --dump, or unset NCCL_TOPO_FILE",
				"%s describes %d hosts, a whole NVLink domain: NCCL takes it for this node", m.From.File, m.From.Hosts)
		}
		for _, gpu := range m.From.FewerNVLinks {
			r.warn("look with nvidia-smi nvlink --status; reset the GPU, or leave the node out",
				"%s: NCCL says nothing of it, and finds fewer channels and no NVLS", gpu)
		}
	case errors.Is(m.Err, localenv.ErrSlowDriver) && needed:
		r.warn("start nvidia-persistenced, or name a topology file: "+detect.TunerFileVariable,
			"%v within %v; the first communicator waits for it", m.Err, took)
	case errors.Is(m.Err, localenv.ErrSlowDriver):
		r.note("", "%v within %v; nothing here needs it", m.Err, took)
	case needed:
		r.warn("run tunefit topo, or name a topology file: "+detect.TunerFileVariable,
			"the machine is not known, so rows with conditions on topo.* never match and a model of a machine "+
				"abstains: %v", m.Err)
	case !errors.As(m.Err, &none):
		r.note("", "the machine is not known; nothing here needs it: %v", m.Err)
	case none.OnPCI > 0:
		r.warn("look with nvidia-smi", "%d NVIDIA GPUs are on the PCI bus, but the driver does not show them: %v",
			none.OnPCI, none.Cause)
	case d.Machine && !d.hasRCCL(ctx): // else its GPUs may be AMD's
		r.warn("look with nvidia-smi, and at what the allocation asks for, as --gpus-per-node",
			"no NVIDIA GPU on this node: NCCL has nothing to run on")
	default:
		r.note("", "no NVIDIA GPU on this node; nothing here needs the topology")
	}
}

func (d *doctor) hasRCCL(ctx context.Context) bool {
	_, err := d.env.Probe(ctx, localenv.LibRCCL)
	return err == nil
}

// leastThreads is the least room for threads that a node with eight ranks needs: in each, eight of the library and
// about fifty that NCCL, CUDA and a framework start.
const leastThreads = 512

// threadLimit is a limit on threads.
type threadLimit struct {
	what      string
	most, now int
	raise     string // what to do for a higher one
}

// examineLimits says whether the library can start its threads. If it cannot, the Go runtime ends the process.
func (d *doctor) examineLimits(ctx context.Context, r *report) {
	limits := d.cgroupLimits()
	if own, ok := d.userLimit(ctx); ok {
		limits = append(limits, own)
	}
	for _, l := range limits {
		if room := max(0, l.most-l.now); room < leastThreads {
			r.warn(l.raise, "%s leaves room for %d more threads (%d of %d are there): a process ends if the library "+
				"cannot start one", l.what, room, l.now, l.most)
		}
	}
	if len(limits) > 0 && r.sound() {
		r.fine("there is room for the threads that a job starts")
	}
}

// userLimit is `ulimit -u`, which counts the threads of all of a user's processes on the machine. ok is false if it
// does not bind this process.
func (d *doctor) userLimit(ctx context.Context) (l threadLimit, ok bool) {
	l = threadLimit{what: "ulimit -u", most: math.MaxInt,
		raise: "raise it (ulimit -u, LimitNPROC, Slurm's PropagateResourceLimits)"}
	self := filepath.Join(d.proc, "self")
	_, limit, _ := strings.Cut(textOf(self, "limits"), "Max processes")
	if fields := strings.Fields(limit); len(fields) > 0 {
		if most, err := strconv.Atoi(fields[0]); err == nil {
			l.most = most
		}
	}
	// It does not bind root, nor a process with one of two capabilities (kernel/fork.c).
	const sysAdmin, sysResource = 21, 24
	status := textOf(self, "status")
	capabilities, _ := strconv.ParseUint(statusField(status, "CapEff"), 16, 64)
	if l.most == math.MaxInt || statusField(status, "Uid") == "0" || capabilities&(1<<sysAdmin|1<<sysResource) != 0 {
		return l, false
	}
	entries, _ := os.ReadDir(d.proc)
	for _, e := range entries {
		dir := filepath.Join(d.proc, e.Name())
		if _, err := strconv.Atoi(e.Name()); err != nil || ctx.Err() != nil {
			continue
		}
		if info, err := os.Stat(dir); err == nil && info.Sys().(*syscall.Stat_t).Uid == uint32(os.Getuid()) {
			threads, _ := strconv.Atoi(statusField(textOf(dir, "status"), "Threads"))
			l.now += threads
		}
	}
	return l, true
}

// cgroupLimits are those of the cgroups that this process is in, from its own upwards.
func (d *doctor) cgroupLimits() (limits []threadLimit) {
	for line := range strings.Lines(textOf(d.proc, "self", "cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] != "" && parts[1] != "pids" {
			continue
		}
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			dir := filepath.Join(d.cgroups, parts[1], group) // version 1 has a folder for each controller
			most, err := strconv.Atoi(textOf(dir, "pids.max"))
			now, err2 := strconv.Atoi(textOf(dir, "pids.current"))
			if err == nil && err2 == nil {
				limits = append(limits, threadLimit{fmt.Sprintf("the cgroup's %s/pids.max", dir), most, now,
					"raise it (systemd's TasksMax, docker's --pids-limit)"})
			}
			if group == "/" {
				break
			}
		}
	}
	return limits
}

// statusField is the first word of a line of /proc/PID/status.
func statusField(status, name string) string {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				return fields[0]
			}
		}
	}
	return ""
}

// textOf is a file of the kernel's, "" where it cannot be read.
func textOf(elements ...string) string {
	text, _ := os.ReadFile(filepath.Join(elements...))
	return strings.TrimSpace(string(text))
}
