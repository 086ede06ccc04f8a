package ask

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/configs"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// Flags name what NCCL's choice comes from.
type Flags struct {
	cli.Env
	Topo, NCCL string
	GPUs       string                  // of each node that communicators have, as 0-3; "": all
	CommName   string                  // of communicators. NCCL's choice does not depend on it, rows may
	measured   map[nccl.Version]string // the file that was measured with each release
}

// Measured notes the release that a file was measured with, 0 if the file does not say. It is the release to assume, if
// --nccl names none and all files agree.
func (f *Flags) Measured(file string, with nccl.Version) {
	switch {
	case with == 0:
	case f.measured == nil:
		f.measured = map[nccl.Version]string{with: file}
	default:
		f.measured[with] = file
	}
}

// Register adds the flags to a command.
func (f *Flags) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Topo, "topo", "",
		"topology file of your machine, NCCL's XML: what NCCL would choose is estimated for this machine (default: "+
			"an HGX H100)")
	cmd.Flags().StringVar(&f.GPUs, "gpus", "",
		"the GPUs of each node that communicators have, in the order of ranks, as 0-3 or 0,2 (default: all)")
	cmd.Flags().StringVar(&f.NCCL, "nccl", "", NCCLUsage)
}

// RegisterCommName adds the flag for a communicator's name.
func (f *Flags) RegisterCommName(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.CommName, "comm-name", "", "ask as for communicators that the program calls so")
}

// Estimates are NCCL's for communicators of one machine. NCCL chooses the cell of its cost table with the smallest
// estimate; channels.Tune computes the estimates that a release has for a machine.
type Estimates struct {
	Set     *tuning.Set    // grows with DeriveFor
	Machine *topo.Document // that the set is derived from
	options channels.TuneOptions
	env     *cli.Env
	NCCL    nccl.Version // asks the tuner. Set.NCCL is that, or the newest before it whose rules are known
	Notes   []string     // what the estimates leave out
}

// Read reads or derives the estimates.
func (f *Flags) Read() (*Estimates, error) {
	m := &Estimates{Notes: UncountedVariables(), env: &f.Env}
	named := f.NCCL
	if named == "" && len(f.measured) == 1 {
		for v, file := range f.measured {
			named = v.String()
			m.Notes = append(m.Notes,
				fmt.Sprintf("for NCCL %s, which %s was measured with (--nccl names another release)", v, file))
		}
	}
	version, notes, err := WhichNCCL(&f.Env, named)
	if err != nil {
		return nil, err
	}
	m.NCCL, m.Notes = version, append(m.Notes, notes...)
	if m.options, err = TuneOptions(version); err != nil {
		return nil, err
	}
	if f.Topo == "" {
		m.Machine, err = hgxH100()
	} else {
		m.Machine, err = f.ReadTopology(f.Topo)
	}
	if err != nil {
		return nil, err
	}
	m.Set = &tuning.Set{System: cmp.Or(f.Topo, "HGX H100"), NCCL: m.options.NCCL}
	if f.GPUs != "" {
		m.Set.System = fmt.Sprintf("GPUs %s of %s", f.GPUs, m.Set.System)
		if m.Machine, err = someGPUs(m.Machine, f.GPUs); err != nil {
			return nil, cli.Usagef("--gpus %s: %w", wording.Quote(f.GPUs), err)
		}
	}
	return m, m.DeriveFor(nccl.Comm{Nodes: 1})
}

// someGPUs returns the machine as NCCL sees it in communicators of some of its GPUs. text lists these: 0-3, or 0,2.
func someGPUs(machine *topo.Document, text string) (*topo.Document, error) {
	const most = 1 << 10 // more than a node has
	var devs []int
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseUint(from, 10, 16)
		last := first
		if isRange && err == nil {
			last, err = strconv.ParseUint(to, 10, 16)
		}
		if err != nil || last < first || last-first >= most {
			return nil, errors.New("no list of GPUs (needed: numbers and ranges, as 0-3 or 0,2,4-7)")
		}
		for dev := int(first); dev <= int(last); dev++ {
			if slices.Contains(devs, dev) {
				return nil, fmt.Errorf("GPU %d is named twice", dev)
			}
			devs = append(devs, dev)
		}
	}
	return machine.Only(devs)
}

// TuneOptions returns the rules of a release, and what this environment's NCCL_* variables change of them.
func TuneOptions(version nccl.Version) (channels.TuneOptions, error) {
	variables, err := channels.VariablesFromEnv(os.Getenv, version.Rules())
	return channels.TuneOptions{Settings: Settings(version), Variables: variables}, err
}

// Settings are the rules of a release with this environment's variables for paths.
func Settings(version nccl.Version) topo.Settings {
	settings := topo.SettingsFromEnv(os.Getenv)
	settings.NCCL = version.Rules()
	return settings
}

func hgxH100() (*topo.Document, error) {
	return topo.Read(configs.DGXH100File, strings.NewReader(configs.DGXH100))
}

// DeriveFor adds NCCL's estimates for as many hosts as each communicator has nodes, unless they are there. All hosts
// are like Machine.
func (m *Estimates) DeriveFor(comms ...nccl.Comm) error {
	var hosts []int
	for _, s := range comms {
		if !slices.Contains(hosts, s.Nodes) && m.Set.For(nccl.Comm{Nodes: s.Nodes}) == nil {
			hosts = append(hosts, s.Nodes)
		}
	}
	derived, err := m.env.Tune(m.Machine, m.options, hosts...)
	if err != nil {
		return err
	}
	for _, c := range derived {
		if t := c.Tuning; m.Set.For(t.Comm) == nil {
			m.Set.Tunings = append(m.Set.Tunings, t)
		}
	}
	return nil
}

// Of returns the estimates for a communicator. If there are none for its size, it returns those for the nearest number
// of nodes.
func (m *Estimates) Of(s nccl.Comm) (*tuning.Tuning, error) {
	if err := m.DeriveFor(s); err != nil {
		return nil, err
	}
	if t := m.Set.For(s); t != nil {
		return t, nil
	}
	distance := func(t *tuning.Tuning) float64 {
		far := max(float64(t.Nodes)/float64(s.Nodes), float64(s.Nodes)/float64(t.Nodes))
		if (t.Nodes == 1) != (s.Nodes == 1) {
			far += 1000 // one node and several have little in common
		}
		return far
	}
	return slices.MinFunc(m.Set.Tunings, func(x, y *tuning.Tuning) int {
		return cmp.Compare(distance(x), distance(y))
	}), nil
}

// Exactly returns the estimates for a communicator; nil: they are not known.
func (m *Estimates) Exactly(c nccl.Comm) *tuning.Tuning {
	t, err := m.Of(c)
	if err != nil || t.Comm != c {
		return nil
	}
	return t
}

// Table is NCCL's cost table for a call on a communicator. Where the estimates are another communicator's, it offers
// PAT as the release does on the communicator itself. There is no estimate of PAT then.
func (m *Estimates) Table(comm nccl.Comm, of *tuning.Tuning, call nccl.Call, pipeOps int) nccl.CostTable {
	table := of.Table(call.Coll, int64(call.Bytes), pipeOps)
	pat := nccl.Cell{Algo: nccl.AlgoPAT, Proto: nccl.ProtoSimple}
	if of.Comm == comm || !nccl.Offers(call.Coll, pat) {
		return table
	}
	switch micros := &table[pat.Algo][pat.Proto]; {
	case !m.NCCL.OffersPAT(comm):
		*micros = nccl.Unavailable
	case *micros >= 0 && comm.Ranks > comm.Nodes, comm.Ranks == comm.Nodes && of.Ranks > of.Nodes &&
		m.options.Variables.LeavePAT(call.Coll, m.NCCL):
		*micros = nccl.TunerOnly
	}
	return table
}

// source names the estimates, with their release and machine.
func (m *Estimates) source() string {
	return fmt.Sprintf("NCCL %s's estimates for %s", m.Set.NCCL, m.Set.System)
}

// noteStandIn says that the estimates are not those for a communicator, if so, and how to get them.
func (m *Estimates) noteStandIn(w io.Writer, c nccl.Comm) {
	by, err := m.Of(c)
	if err != nil || by.Comm == c {
		return
	}
	fmt.Fprintf(w, "note: NCCL's default for %s on %s is not known; what is available is taken from %s", c,
		m.Set.System, by.Comm)
	if perNode := c.Ranks / c.Nodes; c.Ranks%c.Nodes == 0 && perNode < by.Ranks/by.Nodes {
		gpus := "0"
		if perNode > 1 {
			gpus = fmt.Sprintf("0-%d", perNode-1)
		}
		fmt.Fprintf(w, " (name its GPUs of a node, as --gpus %s)", gpus)
	}
	fmt.Fprintln(w)
}

// doubt says why the estimates may not fit the user's machine. It is empty if the user named a machine, or if this node
// is like the assumed one.
func (f *Flags) doubt() string {
	if f.Topo != "" {
		return ""
	}
	here := localenv.ThisMachine(os.Getenv)
	if here.Err != nil {
		return "; it is not known whether this machine is one"
	}
	if doc, err := hgxH100(); err == nil {
		assumed, err := topo.Build(doc, topo.SettingsFromEnv(os.Getenv))
		if err == nil && assumed.Fingerprint() == here.Here.Fingerprint {
			return ""
		}
	}
	return fmt.Sprintf("; this machine is not one (%s)", here.Here.Summary)
}

// WhichNCCL is the release that --nccl names, else the installed one, else the newest known one. It notes a release
// whose rules are not known.
func WhichNCCL(e *cli.Env, named string) (v nccl.Version, notes []string, err error) {
	if named == "" {
		switch v = e.Installed(); {
		case v == 0:
			return nccl.Newest, nil, nil
		case v < nccl.Oldest:
			return nccl.Newest, []string{fmt.Sprintf("the tuner ABI of NCCL %s, installed here, is not known; this is "+
				"for NCCL %s (--nccl names another)", v, nccl.Newest)}, nil
		}
	} else if v, err = nccl.ParseVersion(named); err != nil {
		return 0, nil, cli.Usagef("--nccl: %w", err)
	}
	if rules := v.Rules(); v != rules {
		notes = append(notes, fmt.Sprintf("the rules of NCCL %s are not known; those of %s are used", v, rules))
	}
	if v >= nccl.NewestRead {
		notes = append(notes, fmt.Sprintf("the estimates of NCCL %s were read, and compared with none of its choices; "+
			"its search for channels is taken to be that of %s, and what it estimates for Rubin is not known",
			nccl.NewestRead, nccl.Newest))
	}
	return v, notes, nil
}

// Usages of --nccl.
var (
	InstalledUsage = fmt.Sprintf("release of NCCL, as 2.28.9 (default: the one that is installed, else %s)",
		nccl.Newest)
	NCCLUsage = fmt.Sprintf("release of NCCL that chooses, as 2.28.9 (default: the one that a policy or model "+
		"says it was measured with, else the installed one, else %s)", nccl.Newest)
)

// UncountedVariables are notes on the variables that are set and that NCCL's choice here ignores.
func UncountedVariables() (notes []string) {
	for _, v := range channels.NotCounted {
		if os.Getenv(v.Name) != "" {
			notes = append(notes, fmt.Sprintf("%s is set and does not count here: it %s", v.Name, v.Does))
		}
	}
	return notes
}
