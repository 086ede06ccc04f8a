package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/probe"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// takesNoPath is the only NCCL that turns every name except lib*.so into libnccl-tuner-NAME.so, paths too.
const takesNoPath nccl.Version = 22703

// newestABI is the newest version of the tuner ABI that a release knows and that the library has; 0 for none. Without
// a library it is the newest that the release knows.
func newestABI(release nccl.Version, library *probe.Library) int {
	if library == nil {
		return release.ABI(nil)
	}
	return release.ABI(func(abi int) bool {
		_, has := library.Tuners[abi]
		return has
	})
}

func (d *doctor) examineNCCL(ctx context.Context, r *report) {
	if !probe.Supported {
		r.unknown("this tunefit was built without cgo and cannot load %s", localenv.LibNCCL)
		return
	}
	if d.NCCL != "" {
		path, err := filepath.Abs(d.NCCL)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			r.fail("name the job's "+localenv.LibNCCL, "--library %s: %v", d.NCCL, safefile.Reason(err))
			return
		}
		d.probeNCCL(ctx, r, path, "")
		return
	}
	seen := []string{d.probeNCCL(ctx, r, localenv.LibNCCL, ""), d.probeNCCL(ctx, r, localenv.LibRCCL, "")}
	for _, path := range slices.Concat(d.env.PythonNCCLs(), d.env.PythonRCCLs()) {
		if real, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(seen, real) {
			d.probeNCCL(ctx, r, path, "PyTorch's ")
			seen = append(seen, real)
		}
	}
	if len(*r) > 0 {
		return
	}
	d.unusableChoices(r, nccl.Newest, fmt.Sprintf("if the job's NCCL is %s", nccl.Newest))
	for i := range *r {
		(*r)[i].Severity = isWarning
	}
	how := isNote
	if d.Machine {
		how = isWarning
	}
	r.add(how, "name the job's: --library FILE",
		"no %s or %s where the dynamic loader and Python look: the tuner ABI of the job's NCCL is not known",
		localenv.LibNCCL, localenv.LibRCCL)
}

// probeNCCL loads an NCCL, and returns its file without links. It finds nothing if the dynamic loader knows no such
// file.
func (d *doctor) probeNCCL(ctx context.Context, r *report, name, whose string) (file string) {
	lib, err := d.env.Probe(ctx, name)
	if err == nil {
		d.judgeNCCL(r, lib, whose)
		file, _ = filepath.EvalSymlinks(lib.Path)
		return file
	}
	reason := err.Error()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		r.timedOut(d, "whether "+whose+"NCCL "+name+" can be loaded is not known")
	case !strings.Contains(name, "/") && strings.HasPrefix(reason, name+": cannot open shared object file"):
	case d.unloadable(r, name, whose+"NCCL cannot be loaded", reason):
	default:
		r.warn("see what the loader misses: ldd "+name, "%sNCCL %s cannot be loaded: %s", whose, name, reason)
	}
	return ""
}

// judgeNCCL says what an NCCL does with our library.
func (d *doctor) judgeNCCL(r *report, lib *probe.Library, whose string) {
	if lib.NCCL == 0 {
		r.warn("", "%s has no ncclGetVersion: is it NCCL?", lib.Path)
		return
	}
	version := nccl.Version(lib.NCCL)
	name := "NCCL"
	switch {
	case lib.NCCLX:
		name = "NCCLX (Meta's)"
	case isRCCL(lib):
		name = "RCCL"
	}
	what := fmt.Sprintf("%s%s %s, %s", whose, name, version, lib.Path)
	var plugin *probe.Library
	if p := d.plugin(); p.ours {
		plugin = p.lib
	}
	abi := newestABI(version, plugin)
	if abi == 0 {
		r.fail("use NCCL 2.21.5 or later", "%s: too old for this tuner, and runs without it", what)
		return
	}
	if value := d.env.Get(tuner.EnvPlugin); version == takesNoPath && strings.Contains(value, "/") {
		r.fail(fmt.Sprintf("add %s to LD_LIBRARY_PATH and set %s=%s", filepath.Dir(value), tuner.EnvPlugin,
			filepath.Base(value)), "%s: it takes no path and does not load %s", what, d.env.Show(tuner.EnvPlugin))
		return
	}
	d.peculiarities(r, lib, what)
	what = fmt.Sprintf("%s, will use tuner ABI v%d", what, abi)
	if version >= withSymmetricKernels && !isRCCL(lib) {
		what += ", and ask no tuner about symmetric kernels (both buffers in registered windows)"
	}
	if version >= withCallConfigs && !isRCCL(lib) {
		what += ". A program may leave the tuner fewer algorithms and channels for a call (ncclCollConfig_t)"
	}
	switch lacks := strings.Join(d.lacking(version, abi), "; "); {
	case lacks == "":
		r.fine("%s", what)
	case d.cannotChange(version, abi) && d.env.Get(tuner.EnvReload) == "live":
		r.warn("use NCCL 2.28.3 or later", "%s: %s", what, lacks)
	default:
		r.note("", "%s: %s", what, lacks)
	}
}

// withCallConfigs is the first NCCL in which a program may choose for single calls.
const withCallConfigs nccl.Version = 23102

// withSymmetricKernels is the first NCCL that has kernels which no tuner is asked about.
const withSymmetricKernels nccl.Version = 22703

// peculiarities says what goes wrong with this library in this environment.
func (d *doctor) peculiarities(r *report, lib *probe.Library, what string) {
	version := nccl.Version(lib.NCCL)
	if lib.NCCLX && d.env.Get(ncclxTuner) != "" {
		r.fail("unset "+ncclxTuner+"; "+tuner.EnvConfigFile+" can name the same file",
			"%s: %s gives it a tuner of its own, and it loads no plugin", what, d.env.Show(ncclxTuner))
	}
	if version == symmetricPreview {
		r.warn("use NCCL 2.31.2 or later", "%s is a preview that hangs or fails where a tuner chooses ll for "+
			"allreduce, allgather or reducescatter", what)
	}
	if version.Has(nccl.Models) && d.env.Get("NCCL_ALGO") != "" && d.env.Get(symKernel) == "" {
		r.note("name those that you want in NCCL_SYM_KERNEL, or unset it",
			"%s: %s turns all symmetric kernels off, too", what, d.env.Show("NCCL_ALGO"))
	}
	if isRCCL(lib) {
		d.examineRCCL(r, lib, what)
	} else {
		d.unusableSymKernel(r, version, what)
	}
	d.unusableChoices(r, version, what)
}

// unusableChoices finds an NCCL_ALGO and an NCCL_PROTO that a release refuses, or that together fail collectives, and
// values that end in a carriage return.
func (d *doctor) unusableChoices(r *report, version nccl.Version, what string) {
	for _, c := range d.env.Files {
		i := slices.IndexFunc(c.Entries, func(s localenv.Entry) bool { return s.CR && !s.Beaten })
		if i >= 0 && !version.Has(nccl.DropsCR) {
			s := c.Entries[i]
			r.fail("write the file with the line ends of Unix: sed -i 's/\\r$//' "+c.Path,
				"%s: the line ends of Windows in %s:%d make %s %q; NCCL %s does not start with that, or ignores it",
				what, c.Path, s.Line, s.Name, s.Value+"\r", version)
			return
		}
	}
	vars, err := channels.VariablesFromEnv(d.env.Get, version)
	if err != nil {
		r.fail("correct or unset it", "%s: %v", what, err)
		return
	}
	starved := vars.Starved(version)
	if len(starved) == 0 {
		return
	}
	var fail, named []string
	for _, coll := range nccl.AllColls() {
		switch word := nccl.Colls.Words[coll]; {
		case slices.Contains(starved, coll):
			fail = append(fail, word)
		case vars.Algos[coll].Set:
			named = append(named, strings.ToLower(word)+":"+d.env.Get("NCCL_PROTO"))
		}
	}
	protos := "name in NCCL_PROTO only collectives that NCCL_ALGO names"
	if !strings.ContainsAny(d.env.Get("NCCL_PROTO"), ":;") {
		protos = "set NCCL_PROTO='" + strings.Join(named, ";") + "'"
	}
	r.fail(fmt.Sprintf("unset one of both; or set NCCL_ALGO='ring;%s' (ring for the others); or %s",
		d.env.Get("NCCL_ALGO"), protos), "%s: %s with %s leaves %s no algorithm: NCCL fails them with error 5 "+
		"(ncclInvalidUsage). NCCL before 2.31 does not", what, d.env.Show("NCCL_ALGO"), d.env.Show("NCCL_PROTO"),
		strings.Join(fail, ", "))
}

// symmetricPreview is 2.31.0, which was published as a preview only, 2.31.0a7.
const symmetricPreview nccl.Version = 23100

const ncclxTuner = "NCCLX_TUNER_CONFIG_FILE"

// cannotChange reports that the policy cannot change during a run, because NCCL does not tell the ranks which
// communicator they are in. 2.27 tells it to the profiler's half only.
func (d *doctor) cannotChange(version nccl.Version, abi int) bool {
	return abi < nccl.ABIComms && (!version.Has(nccl.TellsName) || d.env.Get(profilerVariable) == "")
}

// lacking lists what the environment and the files ask for and this NCCL cannot do; docs/dev/NCCL.md has the facts.
func (d *doctor) lacking(version nccl.Version, abi int) (lacks []string) {
	f := d.files()
	asks := func(wanted func(policy.Rule) bool) bool {
		return f.compiled != nil && slices.ContainsFunc(f.compiled.Rules, wanted)
	}
	channels := func(r policy.Rule) bool { return r.Channels > 0 }
	for _, l := range []struct {
		is   bool
		what string
	}{
		{d.cannotChange(version, abi) && reloadMode(d.env) == "live" && (f.policy.name != "" || f.model.name != ""),
			"the policy cannot change during a run (since 2.28.3)"},
		{abi == nccl.ABINoCosts && (f.compiled != nil || f.fitted != nil),
			"it does not tell its costs, so rows that leave algorithm or protocol open do not match, and a model " +
				"abstains (since 2.22.3)"},
		{version.Has(nccl.ChannelsOnlyLower) && asks(channels),
			"a row's channels count only where they are fewer than NCCL's own (since 2.31)"},
		{version.UncheckedAllGather() && asks(func(r policy.Rule) bool {
			return channels(r) && slices.Contains(r.Colls(), nccl.CollAllGather)
		}), "rows set no channels of an allgather: it may use them unchecked and crash (2.29.2 to 2.30)"},
		{abi < nccl.ABIChunks && asks(func(r policy.Rule) bool { return r.ChunkBytes > 0 }),
			"chunk_bytes is not used (since 2.30.3)"},
	} {
		if l.is {
			lacks = append(lacks, l.what)
		}
	}
	return lacks
}
