package main

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

type shareFlags struct {
	env          ncclchoice.Env
	output, topo string
	force        bool
}

func shareCommand(env ncclchoice.Env) *cobra.Command {
	f := shareFlags{env: env}
	cmd := &cobra.Command{
		Use:   "share SWEEP|DIRECTORY... -o BUNDLE.tar.gz",
		Short: "Pack measurements for others, without names of hosts, users and paths",
		Long: `Pack measurements for others, without names of hosts, users and paths. It reads what
tunefit import reads. The folder of a sweep stands for its sweep.csv. The bundle has
  - measurements.csv, which tunefit fit reads: times, sizes, configurations, the models of
    GPUs, the releases of NCCL and the driver, the day
  - topology.xml, if --topo names the machine's (tunefit topo --dump writes one): links,
    bus ids and the ids of devices; net names, GUIDs and host hashes become numbers
  - manifest.txt: what was measured, and what kinds of things were removed

It removes host names, the names of logs with their paths, the time of the day, and
tuners that are not this one. It removes the value of any field that does not look like
what the field is for. It prints what it removed, and saves no log. Look into the
bundle before you send it: tar -xzOf BUNDLE.tar.gz bundle/measurements.csv

Equal measurements give equal bundles.`,
		Example: `  tunefit share sweeps/first.csv -o bundle.tar.gz
  tunefit share sweeps -o cluster.tar.gz --topo system.xml`,
		Args: cli.Args(1, -1, "a sweep, the folder of one, or more"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, slices.Clone(args)) },
	}
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "bundle to write, a tar.gz file")
	cmd.Flags().StringVar(&f.topo, "topo", "", "topology file of the measured machine, to be in the bundle")
	cmd.Flags().BoolVar(&f.force, "force", false,
		"overwrite the bundle, and read files of which many rows cannot be read")
	return cmd
}

func (f *shareFlags) run(cmd *cobra.Command, args []string) error {
	if f.output == "" {
		return cli.Usagef("no bundle named (needed: -o BUNDLE.tar.gz)")
	}
	for i, arg := range args {
		file := filepath.Join(arg, "sweep.csv")
		if _, err := os.Stat(file); err == nil {
			args[i] = file
		}
	}
	inputs, found, err := walked(args)
	if err != nil {
		return err
	}
	if err := cli.MayWrite(f.output, f.force, append(slices.Clone(inputs), f.topo)...); err != nil {
		return err
	}
	share := sharing{}
	results, err := newReader(f.env.Inputs, cmd, inputs, found, f.force).all(cmd.ErrOrStderr(), inputs)
	if err != nil {
		return fmt.Errorf("%w\nnothing was written", err)
	}
	var samples []bench.Sample
	for _, r := range results {
		for _, of := range [][]bench.Sample{r.Samples, r.Failed, r.NotOffered} {
			samples = append(samples, of...)
		}
	}
	if len(samples) == 0 {
		return errors.New("not one usable measurement: nothing was written")
	}
	for i := range samples {
		share.sample(&samples[i])
	}
	var rows, system strings.Builder
	if err := bench.WriteTidy(&rows, samples); err != nil {
		return err
	}
	files := map[string]string{"measurements.csv": rows.String()}
	if f.topo != "" {
		doc, err := f.env.ReadTopology(f.topo)
		if err != nil {
			return err
		}
		share.element(doc.Root)
		if err := doc.Write(&system); err != nil {
			return err
		}
		files["topology.xml"] = system.String()
	}
	files["manifest.txt"] = share.manifest(samples)
	if err := cli.WriteWhole(f.output, f.force, func(w io.Writer) error { return pack(w, files) }); err != nil {
		return err
	}
	fmt.Fprint(cmd.OutOrStdout(), files["manifest.txt"])
	for _, what := range slices.Sorted(maps.Keys(share)) {
		values := cli.Few(slices.Sorted(maps.Keys(share[what])), 20, ", ")
		fmt.Fprintf(cmd.ErrOrStderr(), "removed %s: %s\n", what, values)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s (to look: tar -xzOf %[1]s bundle/measurements.csv)\n", f.output)
	return nil
}

// sharing removes what names a machine or a person. It holds what it removed: what it is, the value, its number.
type sharing map[string]map[string]int

func (s sharing) remove(what, value string) (number int) {
	if s[what] == nil {
		s[what] = map[string]int{}
	}
	if s[what][value] == 0 {
		s[what][value] = len(s[what]) + 1
	}
	return s[what][value]
}

// What is kept of a field.
var (
	sourceParts = regexp.MustCompile(`^(?:simulated:)?(verify:)?(.*?)(?:[:#]\d+)?$`)
	keptNothing = regexp.MustCompile(`^`)
	keptWord    = regexp.MustCompile(`^\w{1,16}$`)
	keptGPU     = regexp.MustCompile(`^[\w .()+-]{1,200}$`)
	keptNCCL    = regexp.MustCompile(`^(RCCL|(RCCL )?\d+(\.\d+){1,3})$`)
	keptDriver  = regexp.MustCompile(`^(CUDA |ROCm )?\d+(\.\d+)*$`)
	keptDay     = regexp.MustCompile(`^\d{4}-\d\d-\d\d`)
	keptTuner   = regexp.MustCompile(`^nccl-tuner-go[ \d.]*$`)
)

func (s sharing) sample(m *bench.Sample) {
	parts := sourceParts.FindStringSubmatch(m.Source)
	m.Source = fmt.Sprintf("%slog%d", parts[1], s.remove("names of logs", parts[2]))
	var setup bench.Setup
	if m.Setup != nil {
		setup = *m.Setup
		m.Setup = &setup
	}
	for _, field := range []struct {
		what    string
		value   *string
		kept    *regexp.Regexp
		instead string
	}{
		{"names of hosts", &setup.Hosts, keptNothing, ""}, {"times of the day", &setup.Time, keptDay, ""},
		{"other tuners", &setup.Tuner, keptTuner, "another"}, {"what is no GPU", &setup.GPU, keptGPU, ""},
		{"what is no release of NCCL", &setup.NCCL, keptNCCL, ""}, {"what is no driver", &setup.Driver, keptDriver, ""},
		{"what is no data type", &m.DType, keptWord, ""}, {"what is no reduction", &m.RedOp, keptWord, ""},
	} {
		if kept := field.kept.FindString(*field.value); kept != *field.value {
			s.remove(field.what, *field.value)
			*field.value = cmp.Or(kept, field.instead)
		}
	}
}

// sharedAttrs are the attributes of a topology's elements that are shared.
var sharedAttrs = map[string]string{
	"system": "version", "cpu": "numaid affinity arch vendor familyid modelid host_hash",
	"pci": "busid class vendor device subsystem_vendor subsystem_device link_speed link_width",
	"gpu": "dev sm rank gdr mlopart", "nvlink": "target count tclass", "c2c": "bw count", "pcilink": "target",
	"net": "name dev speed port latency maxconn guid gdr coll rail plane net gin rma keep",
}

// keptAttr is a number, a PCI address, a mask, a speed, or what a processor calls its maker: GenuineIntel.
var keptAttr = regexp.MustCompile(`^((0x)?[0-9a-fA-F.:,-]*|[\d.]+ GT/s( PCIe)?|x86_64|arm64|ppc64|[A-Za-z ]{12})$`)

// element takes from a topology what names the machine, and attributes that are not known. Ports of one NIC have one
// GUID, CPUs of one host one hash: the numbers that take their place are equal where these were.
func (s sharing) element(e *topo.Element) {
	attrs := e.Attrs
	e.Attrs = nil
	for _, a := range attrs {
		known := slices.Contains(strings.Fields(sharedAttrs[e.Name]), a.Name)
		switch renamed := map[string]string{"host_hash": "0x%x", "guid": "0x%x", "name": "net%d"}[a.Name]; {
		case known && renamed != "" && a.Value != "0x0":
			e.Set(a.Name, fmt.Sprintf(renamed, s.remove(a.Name+" of the topology", a.Value)))
		case known && keptAttr.MatchString(a.Value):
			e.Set(a.Name, a.Value)
		default:
			s.remove("attributes of the topology", a.Name+"="+a.Value)
		}
	}
	for _, child := range e.Children {
		s.element(child)
	}
}

// manifest says what is in the bundle, and names nothing that was removed.
func (s sharing) manifest(samples []bench.Sample) string {
	sizes, setups := map[fit.Key][]uint64{}, map[string]bool{}
	for i := range samples {
		m := &samples[i]
		key := fit.Key{Coll: m.Coll, Comm: m.Comm}
		sizes[key] = append(sizes[key], m.Bytes)
		if m.Setup != nil {
			setups[fmt.Sprintf("on %q with NCCL %q, driver %q", m.Setup.GPU, m.Setup.NCCL, m.Setup.Driver)] = true
		}
	}
	var lines []string
	for key, of := range sizes {
		lines = append(lines, fmt.Sprintf("%s %s: %s, %s", key.Coll, key.Comm, plural.Of(len(of), "row"),
			commspec.SizeRange(slices.Min(of), slices.Max(of))))
	}
	slices.Sort(lines)
	lines = append(lines, slices.Sorted(maps.Keys(setups))...)
	for _, what := range slices.Sorted(maps.Keys(s)) {
		lines = append(lines, fmt.Sprintf("removed %s: %d", what, len(s[what])))
	}
	return strings.Join(lines, "\n") + "\n"
}

// pack writes the same bytes for the same files.
func pack(w io.Writer, files map[string]string) error {
	zipped := gzip.NewWriter(w)
	out := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		head := tar.Header{Name: "bundle/" + name, Mode: 0o644, Size: int64(len(text)), ModTime: time.Unix(0, 0)}
		_ = out.WriteHeader(&head) // Close has its error, too
		_, _ = io.WriteString(out, text)
	}
	return errors.Join(out.Close(), zipped.Close())
}
