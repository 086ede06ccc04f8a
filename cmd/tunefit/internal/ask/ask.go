// Package ask asks the policy engine, which is the library's own code. It tells what the engine decides about the cost
// table that NCCL would give to a tuner, who decides, and why. It does not load the library; a test compares the two.
package ask

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// Asker asks what policies and models decide in one release of NCCL.
type Asker struct {
	ABI       int        // version of the tuner ABI that the release uses
	Costs     *Estimates // NCCL's estimates
	Notes     []string   // what the library would warn of
	Offers    *Offers    // replaces what NCCL's estimates offer; nil: nothing does
	Files     Files      // all that may be asked
	CommName  string     // what all communicators are called; "": nothing
	from      Flags
	engines   map[Decider]*policy.Engine
	sheets    map[Decider]*policy.Sheet // the policies' texts
	views     map[viewKey]*policy.EngineView
	noEffect  bool               // the library leaves all to NCCL, whatever the files say
	rccl      map[Decider]string // the RCCL that the files were measured with; "": none
	estimates bool               // NCCL's estimates were needed
}

type viewKey struct {
	Decider
	policy.Comm
}

// NewAsker reads the files of all deciders that may be asked.
func NewAsker(from Flags, by ...Decider) (*Asker, error) {
	a := &Asker{engines: map[Decider]*policy.Engine{}, sheets: map[Decider]*policy.Sheet{},
		views: map[viewKey]*policy.EngineView{}, rccl: map[Decider]string{}}
	if from.Topo == "" {
		for _, d := range by {
			if from.Topo = cmp.Or(from.Topo, MeasuredOn(d.Policy), MeasuredOn(d.Model)); from.Topo != "" {
				a.note("the machine is the measured one, %s (--topo names another)", from.Topo)
				break
			}
		}
	}
	for _, d := range by {
		var rules *policy.Policy
		var learned *model.Model
		var err error
		if d.Policy != "" {
			var text []byte
			if rules, text, err = ReadPolicy(from.Inputs, d.Policy); err != nil {
				return nil, err
			}
			if a.sheets[d], err = policy.ReadSheet(text); err != nil {
				return nil, err
			}
			a.Files.Policies = append(a.Files.Policies, rules)
			said := nccl.ReadRemarks(text)
			a.measured(&from, d, d.Policy, said.Measured)
			a.noteLacked(d.Policy, said.Under)
		}
		if d.Model != "" {
			if learned, _, err = ReadModel(from.Inputs, d.Model); err != nil {
				return nil, err
			}
			a.Files.model = learned
			a.measured(&from, d, d.Model, learned.File.Provenance.NCCL)
			a.noteLacked(d.Model, learned.MeasuredUnder())
		}
		var here *topo.Machine
		if policy.NeedsTopology(rules, learned) {
			if here, err = findMachine(&from); err != nil { // the engine works without it, as the library does
				a.note("the topology of this machine is not known: %v", err)
			}
		}
		engine := policy.NewEngine(rules, learned, here)
		if engine.Standing.Abstains() {
			a.note("the model %s %s", learned.Name, engine.Standing)
		}
		a.engines[d] = engine
	}
	var err error
	if a.Costs, err = from.Read(); err != nil {
		return nil, err
	}
	for _, d := range by {
		switch {
		case a.rccl[d] == "":
		case d.Model == "":
			a.note("%s was measured with %s, whose own choices are not in it: those shown are NCCL %s's", d.Policy,
				a.rccl[d], a.Costs.NCCL)
		default:
			a.note("%s was measured with %s, whose own choices are not known where they were not measured: those "+
				"shown there are NCCL %s's", d.Model, a.rccl[d], a.Costs.NCCL)
		}
	}
	a.CommName = from.CommName
	a.from, a.ABI = from, a.Costs.NCCL.ABI(nil)
	a.noEffect = a.ABI == nccl.ABINoCosts && cmp.Or(os.Getenv("NCCL_ALGO"), os.Getenv("NCCL_PROTO")) != ""
	if a.noEffect {
		a.note("NCCL_ALGO or NCCL_PROTO is set and NCCL %s does not tell what they allow, NCCL decides", a.Costs.NCCL)
	}
	return a, nil
}

// measured notes the releases that a file of a decider was measured with.
func (a *Asker) measured(from *Flags, d Decider, file, with string) {
	if nccl.IsRCCL(with) {
		a.rccl[d] = with
	}
	_, newest, _ := nccl.MeasuredWith(with)
	from.Measured(file, newest)
}

// Chooser names what made NCCL's choices in outcomes of a decider: the RCCL that was measured, else the release.
func (a *Asker) Chooser(d Decider, of []Outcome) string {
	if a.rccl[d] != "" && slices.ContainsFunc(of, func(o Outcome) bool { return o.Known == Measured }) {
		return a.rccl[d]
	}
	return "NCCL " + a.Costs.NCCL.String()
}

// MeasuredOn is the topology file of the machine that a policy or a model was measured on, which a sweep leaves beside
// it; "": there is none that can be read.
func MeasuredOn(file string) string {
	if file == "" || file == cli.StandardName {
		return ""
	}
	beside := filepath.Join(filepath.Dir(file), "topology.xml")
	if _, err := topo.ReadFile(beside); err != nil {
		return ""
	}
	return beside
}

// MeasuredMachine is the machine of that file under NCCL's variables, and the file; nil: not known.
func MeasuredMachine(file string, getenv func(string) string) (m *topo.Machine, on string) {
	on = MeasuredOn(file)
	if doc, err := topo.ReadFile(on); err == nil {
		m, _ = policyfile.MachineOf(doc, getenv) // nil with an error
	}
	return m, on
}

// findMachine returns the machine of --topo, else this one.
func findMachine(from *Flags) (here *topo.Machine, err error) {
	if from.Topo == "" {
		here, _, err = policyfile.FindMachine(func(name string) string {
			if name == tuner.EnvFilesTrust {
				return "1" // looking at a file is safe
			}
			return os.Getenv(name)
		})
		return here, err
	}
	return ReadMachine(from.Env, from.Topo)
}

// ReadMachine reads a topology file as the library sees that machine.
func ReadMachine(env cli.Env, name string) (*topo.Machine, error) {
	doc, err := env.ReadTopology(name)
	if err != nil {
		return nil, err
	}
	return policyfile.MachineOf(doc, os.Getenv)
}

// noteLacked says which variables a file was measured under that are not set here.
func (a *Asker) noteLacked(file string, under []string) {
	if lacked := nccl.LackedVariables(under, os.Getenv); len(lacked) > 0 {
		a.note("%s was measured under %s, which is not so here: it is for jobs with these variables only", file,
			strings.Join(lacked, " "))
	}
}

// note adds a note, once.
func (a *Asker) note(format string, args ...any) {
	text := wording.Line(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
	if !slices.Contains(a.Notes, text) {
		a.Notes = append(a.Notes, text)
	}
}

// Comm is a communicator as the library sees it in the release.
func (a *Asker) Comm(c nccl.Comm) policy.Comm {
	comm := policy.Comm{Comm: c, NCCL: nccl.Only(a.Costs.NCCL)}
	if a.Costs.NCCL.Has(nccl.TellsName) {
		comm.Name = a.CommName
	} else if a.CommName != "" {
		a.note("NCCL %s does not tell a communicator's name, which comes with %s: no row decides by the name %q",
			a.Costs.NCCL, nccl.Version(nccl.TellsName), a.CommName)
	}
	if a.ABI >= nccl.ABIComms {
		// NCCL counts one for each node: initNvlDomainInfo in its src/init.cc, at least up to 2.30.
		comm.NVLDomains = c.Nodes
	}
	return comm
}

// view is the engine of a decider for a communicator.
func (a *Asker) view(d Decider, comm policy.Comm) *policy.EngineView {
	key := viewKey{d, comm}
	if a.views[key] == nil {
		a.views[key] = a.engines[d].For(comm)
		if !a.noEffect {
			// A view of its own: the asked one still has to report the conditions that fail for some calls only.
			tuner.ReportRows(a.engines[d].For(comm), func(n record.NoEffect) { a.note("%s", n.Is) }, a.note)
		}
	}
	return a.views[key]
}

// Ask asks a question about calls of some sizes.
func (a *Asker) Ask(d Decider, q Question, sizes ...uint64) ([]Outcome, error) {
	costs, err := a.Costs.Of(q.Comm.Comm)
	if err != nil {
		return nil, err
	}
	view := a.view(d, q.Comm)
	outcomes := make([]Outcome, len(sizes))
	for i, bytes := range sizes {
		q.Bytes = bytes
		o := a.withoutTuner(q, view, costs)
		query, table := q.query(o.table, a.ABI), o.table
		o.guessed = o.Known == NotKnown
		if !a.noEffect {
			x := view.Decide(query)
			table, o.Policy.Channels, o.Chunk = throughABI(x.Decision, o.table, a.ABI)
			if x.By == policy.ByRow {
				row := a.engines[d].Policy.Rules[x.Rule]
				o.File, o.Row = d.Policy, row.Line
				o.guessed = o.guessed && !row.Cells.Single()
				o.MeasuredNodes, o.Comment = a.sheets[d].Remarks(o.Row).Nodes, a.sheets[d].Field(o.Row, "comment")
			} else {
				o.Why = telemetry.Reason(a.engines[d], query, x)
			}
			if o.ByModel = x.By == policy.ByModel; o.ByModel {
				o.File, o.guessed = d.Model, false
			}
		}
		after := choose(costs, table, q.Bytes)
		o.Policy.Cell, o.Release = after.Cell, a.Costs.NCCL.String()
		if a.rccl[d] == "" && a.Costs.NCCL.Has(nccl.ChannelsOnlyLower) && o.Policy.Channels > after.Channels {
			o.Policy.Channels, o.NotRaised = 0, o.Policy.Channels
		}
		made := policy.Decision{Config: o.Policy, Write: o.Policy.Cell != o.NCCL.Cell}
		if c, ok := view.Expect(query, made); ok {
			o.Expected = &Expectation{Micros: c.Micros(), Default: c.Default.Micros(), Gain: c.Gain(),
				Sigma: math.Hypot(c.Sigma, c.Default.Sigma)}
		}
		outcomes[i] = o
	}
	return outcomes, nil
}

// Explained is an outcome with all that led to it.
type Explained struct {
	policy.Explanation
	Files     Decider
	Sheet     *policy.Sheet // the policy's text; nil without a policy
	Outcome   Outcome
	Engine    *policy.Engine
	Costs     *tuning.Tuning // NCCL's latencies and bandwidths
	Estimates []Estimate     // of the available cells, the cheapest first; last those that have none
	Source    string         // names the estimates
}

// Estimate is NCCL's estimate for a cell.
type Estimate struct {
	nccl.Cell
	Micros *float32 `json:"us,omitempty"`
	// NotEstimated: NCCL leaves the cell to tuners, or the estimates are of another communicator, which lacks it.
	NotEstimated bool `json:"not_estimated,omitempty"`
	Chosen       bool `json:"chosen,omitempty"`
}

// Explain asks one question and returns the answer with all that led to it.
func (a *Asker) Explain(d Decider, q Question) (x Explained, err error) {
	answers, err := a.Ask(d, q, q.Bytes)
	if err != nil {
		return x, err
	}
	x = Explained{Files: d, Sheet: a.sheets[d], Outcome: answers[0], Engine: a.engines[d],
		Source: cmp.Or(answers[0].CostModel, a.Costs.source())}
	if x.Costs, err = a.Costs.Of(q.Comm.Comm); err != nil {
		return x, err
	}
	table := a.table(x.Costs, q, nccl.NoCell)
	for i, micros := range table {
		if micros >= 0 {
			e := Estimate{Cell: cellAt(i), Chosen: cellAt(i) == x.Outcome.NCCL.Cell}
			if e.NotEstimated = micros == nccl.TunerOnly; !e.NotEstimated {
				e.Micros = &table[i]
			}
			x.Estimates = append(x.Estimates, e)
		}
	}
	cost := func(e Estimate) float32 { return table[int(e.Algo)*nccl.NumProtos+int(e.Proto)] }
	slices.SortStableFunc(x.Estimates, func(a, b Estimate) int { return cmp.Compare(cost(a), cost(b)) })
	x.Explanation = a.view(d, q.Comm).Explain(q.query(x.Outcome.table, a.ABI))
	return x, nil
}

// throughABI is what NCCL gets of a decision through a version of the ABI. It does as the C side of the library
// (tuner/plugin/tables.c) and NCCL do. It does not change table, which is NCCL's.
func throughABI(d policy.Decision, table []float32, abi int) (after []float32, channels int, chunk int64) {
	after, channels = slices.Clone(table), d.Channels
	if abi >= nccl.ABIChunks {
		chunk = int64(min(d.ChunkBytes, math.MaxUint32))
	}
	if d.Write {
		at := int(d.Algo)*nccl.NumProtos + int(d.Proto)
		switch {
		case abi != nccl.ABINoCosts:
			after[at] = d.Micros
		case after[at] >= 0: // NCCL did not tell what is available, so it checks
			after[at] = 0
		}
	}
	return after, channels, chunk
}

// choose returns what NCCL chooses from a flat table.
func choose(costs *tuning.Tuning, flat []float32, bytes uint64) tuning.Choice {
	var table nccl.CostTable
	for i, micros := range flat {
		table[i/nccl.NumProtos][i%nccl.NumProtos] = micros
	}
	return costs.ChooseFrom(table, int64(bytes))
}

// Decider is what decides: a policy file, a model, or both. "" is none.
type Decider struct{ Policy, Model string }

// ReadPolicy reads a policy. All problems of the file come back in the error.
func ReadPolicy(in *cli.Inputs, file string) (p *policy.Policy, text []byte, err error) {
	if text, err = in.Decider(file, cli.KindPolicy); err != nil {
		return nil, nil, err
	}
	if p, err = policy.ReadCSV(file, text); err != nil {
		return nil, nil, fmt.Errorf("%s is not a policy:\n%w", file, err)
	}
	if len(p.Rules) == 0 {
		return nil, nil, fmt.Errorf("%s has no rows", file)
	}
	return p, text, nil
}

// ReadModel is ReadPolicy for a model.
func ReadModel(in *cli.Inputs, file string) (m *model.Model, text []byte, err error) {
	if text, err = in.Decider(file, cli.KindModel); err != nil {
		return nil, nil, err
	}
	if m, err = model.Read(file, text); err != nil {
		return nil, nil, fmt.Errorf("%s is not a model:\n%w", file, err)
	}
	return m, text, nil
}

// About returns notes on a decider: what the library would warn of, and for each communicator why the model abstains.
// With allGather it adds which channel counts of AllGather are left to NCCL.
func (a *Asker) About(d Decider, comms []policy.Comm, allGather bool) (notes []string) {
	unchecked := fmt.Sprintf("NCCL %s may use it unchecked for a group of broadcasts, and crash", a.Costs.NCCL)
	for _, c := range comms {
		view := a.view(d, c) // it may add to the Asker's notes
		if why := view.ModelAbstains(); why != "" && view.Empty() {
			notes = append(notes, fmt.Sprintf("%s: no row is for it and the model %s abstains (%s), NCCL decides", c,
				d.Model, why))
		}
		rows, first, model := view.UncheckedAllGathers()
		if allGather && rows > 0 {
			notes = append(notes, fmt.Sprintf("%s:%d: the channel count is left to NCCL for allgather, as in %s in "+
				"all: %s", d.Policy, first.Line, wording.Plural(rows, "row"), unchecked))
		}
		if allGather && model {
			notes = append(notes, fmt.Sprintf("%s: configurations with a channel count are not used for allgather: %s",
				d.Model, unchecked))
		}
	}
	for i, note := range notes { // of several communicators the same is said once
		if !slices.Contains(notes[:i], note) {
			a.note("%s", note)
		}
	}
	return slices.Clone(a.Notes)
}

// Question is one call on a communicator, without NCCL's estimates.
type Question struct {
	nccl.Call
	Comm    policy.Comm `json:"comm"`
	PipeOps int         `json:"pipe_ops"`
	RegBuff int         `json:"reg_buff"`
}

// query is the question as a version of the ABI puts it to the tuner.
func (q Question) query(table []float32, abi int) policy.Query {
	asked := policy.Query{Call: q.Call, PipeOps: q.PipeOps, RegBuff: q.RegBuff,
		Costs: nccl.Costs{Micros: table, NumProto: nccl.NumProtos}}
	if abi < nccl.ABIRegBuff {
		asked.RegBuff = -1
	}
	if abi == nccl.ABINoCosts {
		told := func(algo nccl.Algo) bool {
			return table[asked.Costs.Index(nccl.Cell{Algo: algo, Proto: nccl.ProtoSimple})] >= 0
		}
		asked.Costs = nccl.AvailableV2(q.Coll, q.Comm.Nodes, told(nccl.AlgoCollNetChain),
			told(nccl.AlgoNVLS) || told(nccl.AlgoNVLSTree))
	}
	return asked
}

// CallText names pipe_ops and reg_buff, if they are not the usual ones.
func (q Question) CallText() string {
	var s string
	if q.PipeOps != 1 {
		s += fmt.Sprintf(", pipe_ops %d", q.PipeOps)
	}
	if q.RegBuff != 0 {
		s += ", reg_buff 1"
	}
	return s
}

// cellAt is the cell at a place in a flat table.
func cellAt(i int) nccl.Cell {
	return nccl.Cell{Algo: nccl.Algo(i / nccl.NumProtos), Proto: nccl.Proto(i % nccl.NumProtos)}
}

// Outcome is what NCCL does with one call, without and with the policy. --json prints it.
type Outcome struct {
	Question

	Release string `json:"nccl_release"` // whose choice NCCL is
	// NCCL's choice; 0 channels: not known. If Known is NotKnown, it is that of the communicator that CostModel names,
	// and null in JSON.
	NCCL       nccl.Config `json:"nccl"`
	NCCLMicros float32     `json:"nccl_us,omitempty"` // left out: neither measured nor estimated
	Known      knowledge   `json:"nccl_by"`
	CostModel  string      `json:"cost_model,omitempty"` // left out: NCCL's choice was measured
	table      []float32   // the tuner gets it

	Policy  nccl.Config `json:"policy"`                // NCCL's choice with the policy; 0 channels: NCCL's own
	Chunk   int64       `json:"chunk_bytes,omitempty"` // left out: NCCL's own
	guessed bool        // Policy's cell follows from the estimates of another communicator
	// NotRaised is the channel count that the policy asks for, where NCCL does not raise its own number to it.
	NotRaised int    `json:"channels_not_raised,omitempty"`
	File      string `json:"file,omitempty"` // of the row or the model that decided; left out: NCCL did
	Row       int    `json:"row,omitempty"`  // line of the policy that decided; left out: none did
	Comment   string `json:"-"`              // of that row
	// MeasuredNodes is on how many nodes the row was measured, where its comments say that its own nodes were not.
	MeasuredNodes int    `json:"measured_on_nodes,omitempty"`
	ByModel       bool   `json:"by_model,omitempty"`
	Why           string `json:"why,omitempty"` // what a model expects, or why neither a row nor a model decided

	// What the model expects of the decision; left out where it does not know, or where all is left to NCCL.
	Expected *Expectation `json:"expected,omitempty"`
}

// Expectation is what a model expects of a decision.
type Expectation struct {
	Micros  float64 `json:"us"`
	Default float64 `json:"nccl_us"` // of NCCL's choice
	Gain    float64 `json:"gain"`    // as a share of the time of NCCL's choice
	Sigma   float64 `json:"sigma"`   // uncertainty of the gain
}

// MarshalJSON implements json.Marshaler.
func (o Outcome) MarshalJSON() ([]byte, error) {
	type fields Outcome
	shown := struct {
		fields
		NCCL *nccl.Config `json:"nccl"`
	}{fields: fields(o)}
	if o.Known != NotKnown {
		shown.NCCL = &o.NCCL
	}
	return json.Marshal(shown)
}

// Alike reports whether both are the same decision.
func (o Outcome) Alike(b Outcome) bool {
	return o.Policy == b.Policy && o.Chunk == b.Chunk
}

// DecidedBy names the row, and says if it was measured on other nodes, or names who else decided.
func (o Outcome) DecidedBy() string {
	switch {
	case o.MeasuredNodes > 0:
		return fmt.Sprintf("%s:%d, not measured: as on %d nodes", o.File, o.Row, o.MeasuredNodes)
	case o.Row > 0:
		return fmt.Sprintf("%s:%d", o.File, o.Row)
	case o.ByModel:
		return o.File
	}
	return "NCCL"
}

// Choice is NCCL's choice with the policy, in a few words.
func (o Outcome) Choice() string {
	choice := o.PolicyCell()
	if n := o.Policy.Channels; n > 0 {
		choice += fmt.Sprintf(" %d ch", n)
	}
	if o.Chunk > 0 {
		choice += ", chunks of " + nccl.FormatBytes(uint64(o.Chunk))
	}
	return choice
}

// NCCLCell is the cell that NCCL chooses, for people.
func (o Outcome) NCCLCell() string {
	if o.Known == NotKnown {
		return string(NotKnown)
	}
	return o.NCCL.Cell.String()
}

// PolicyCell is the cell that NCCL chooses with the policy, for people.
func (o Outcome) PolicyCell() string {
	if o.guessed {
		return string(NotKnown)
	}
	return o.Policy.Cell.String()
}

// knowledge is how NCCL's choice is known.
type knowledge string

const (
	estimated knowledge = "cost model"
	// Timed says that the time was measured, while the configuration is not known and estimated.
	Timed    knowledge = "cost model, time measured"
	Measured knowledge = "measurement"
	// NotKnown says that the estimates are those of another communicator.
	NotKnown knowledge = "not known"
)

// withoutTuner fills in NCCL's choice, and the table that NCCL gives to a tuner. The choice is the measured one, if the
// model has it, else the one that NCCL's estimates give.
func (a *Asker) withoutTuner(q Question, view *policy.EngineView, costs *tuning.Tuning) Outcome {
	o := Outcome{Question: q, Known: estimated, table: a.table(costs, q, nccl.NoCell), CostModel: a.Costs.source()}
	if by := costs.Comm; by != q.Comm.Comm && (a.Offers == nil || len(a.Offers.Micros) == 0) {
		o.Known, o.CostModel = NotKnown, fmt.Sprintf("%s, of %s", o.CostModel, by)
	}
	estimate := choose(costs, o.table, q.Bytes)
	o.NCCL = estimate.Config
	if o.Known == estimated && estimate.Micros >= 0 && estimate.Micros < nccl.TunerOnly {
		o.NCCLMicros = estimate.Micros
	}
	// Benchmarks make one call at a time from buffers that are not registered: nothing was measured of other calls.
	if own, ok := view.NCCLChoice(q.Call); ok && q.PipeOps <= 1 && q.RegBuff != 1 {
		switch {
		case own.Cell == nccl.NoCell:
			o.NCCL.Channels, o.NCCLMicros = own.Channels, float32(own.Micros())
			if o.Known == estimated {
				o.Known = Timed
			}
		case choose(costs, a.table(costs, q, own.Cell), q.Bytes).Cell == own.Cell:
			o.Known, o.NCCL, o.CostModel = Measured, own.Config, ""
			o.NCCLMicros, o.table = float32(own.Micros()), a.table(costs, q, own.Cell)
		}
	}
	if o.Known == estimated || o.Known == Timed {
		a.estimates = a.estimates || a.Offers == nil || len(a.Offers.Micros) == 0
	}
	return o
}

// table is NCCL's cost table for a question, flat. If chosen is a cell, the table is changed so that NCCL chooses it.
func (a *Asker) table(costs *tuning.Tuning, q Question, chosen nccl.Cell) (flat []float32) {
	table := a.Costs.Table(q.Comm.Comm, costs, q.Call, q.PipeOps)
	flat = table.Costs().Micros
	if chosen != nccl.NoCell {
		flat = q.query(flat, nccl.NewestABI).Costs.Choosing(chosen).Micros
	}
	if a.Offers != nil {
		a.Offers.limit(flat)
	}
	return flat
}

// Note prints what a person should know about NCCL's choice on the communicators shown. It names NCCL's estimates, if
// they were needed, and warns if they may not fit the user's machine.
func (a *Asker) Note(w io.Writer, shown []policy.Comm) {
	cli.Notes(w, a.Costs.Notes...)
	for _, c := range shown {
		a.Costs.noteStandIn(w, c.Comm)
	}
	if !a.estimates {
		return
	}
	where := ""
	if a.Files.model != nil {
		where = ", where it was not measured,"
	}
	doubt := a.from.doubt()
	if doubt != "" {
		doubt += " (--topo FILE names yours, --model FILE what was measured on it)"
	}
	fmt.Fprintf(w, "note: NCCL's default%s is taken from %s%s\n", where, a.Costs.source(), doubt)
}

// Offers says which cells NCCL has for the calls.
type Offers struct {
	Never  []nccl.Cell           // what it does not have; an algorithm or a protocol of -1 is any
	Micros map[nccl.Cell]float32 // all that it has, instead of its estimates; empty: what these have
}

// limit changes NCCL's table to what a test says.
func (o *Offers) limit(table []float32) {
	for i := range table {
		at := cellAt(i)
		if len(o.Micros) > 0 {
			table[i] = nccl.Unavailable
			if micros, ok := o.Micros[at]; ok {
				table[i] = micros
			}
		}
		if slices.ContainsFunc(o.Never, func(c nccl.Cell) bool {
			return (c.Algo < 0 || c.Algo == at.Algo) && (c.Proto < 0 || c.Proto == at.Proto)
		}) {
			table[i] = nccl.Unavailable
		}
	}
}

// Files are policies and one model. They tell the communicators, sizes and calls worth asking about.
type Files struct {
	Policies []*policy.Policy
	model    *model.Model // nil: none
}

// Comms lists the communicators that columns and conditions of rules name, and those that the model was measured on.
// Where a rule leaves ranks open, it assumes 8 ranks per node.
func (f Files) Comms() []nccl.Comm {
	const perNode = 8
	seen := map[nccl.Comm]bool{}
	if f.model != nil {
		for _, g := range f.model.File.CurveSets {
			seen[nccl.Comm{Nodes: g.Nodes, Ranks: g.Ranks}] = true
		}
	}
	add := func(wants [policy.NumNumbers]int32) {
		nodes, ranks, rpn := int(wants[policy.Nodes]), int(wants[policy.Ranks]), int(wants[policy.RanksPerNode])
		if nodes < 0 && ranks < 0 && rpn < 0 {
			return
		}
		if rpn < 0 {
			rpn = perNode
			if nodes > 0 && ranks > 0 && ranks%nodes == 0 {
				rpn = ranks / nodes
			} else if ranks > 0 && ranks < perNode {
				rpn = ranks
			}
		}
		if nodes < 0 {
			nodes = max(1, ranks/rpn)
		}
		if c := (nccl.Comm{Nodes: nodes, Ranks: nodes * rpn}); c.Ranks > 1 && (ranks < 0 || ranks == c.Ranks) {
			seen[c] = true
		}
	}
	for _, p := range f.Policies {
		for _, r := range p.Rules {
			add(r.Numbers)
			for _, of := range []policy.Number{policy.Nodes, policy.Ranks, policy.RanksPerNode} {
				for _, n := range r.When.Limits(of.String()) {
					if with := r.Numbers; 1 <= n && n <= 1<<16 { // a communicator of a usual size can have it
						with[of] = int32(n)
						add(with)
					}
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), nccl.Comm.Compare)
}

// Rules are those that can match a collective on a communicator.
func (f Files) Rules(coll nccl.Coll, c nccl.Comm) (rules []*policy.Rule) {
	for _, p := range f.Policies {
		for i := range p.Rules {
			if r := &p.Rules[i]; r.IsFor(coll, policy.Comm{Comm: c}) {
				rules = append(rules, r)
			}
		}
	}
	return rules
}

// Sizes adds to samples the sizes at which a rule begins or ends, and those that the model was measured at.
func (f Files) Sizes(samples []uint64, coll nccl.Coll, c nccl.Comm) []uint64 {
	sizes := withEdges(samples, c.Ranks, f.Rules(coll, c))
	if f.model == nil {
		return sizes
	}
	for _, g := range f.model.File.CurveSets {
		if of, err := nccl.Colls.Parse(g.Coll); err != nil || of != coll || g.Ranks*c.Nodes != c.Ranks*g.Nodes {
			continue
		}
		for _, b := range g.Sizes() {
			if samples[0] <= b && b <= samples[len(samples)-1] {
				sizes = append(sizes, b)
			}
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// withEdges adds to sampled sizes those at which a rule begins or ends or that a condition names, and their neighbours,
// so that no rule hides between two samples. It stays between the first and the last sample.
func withEdges(sizes []uint64, ranks int, rules []*policy.Rule) []uint64 {
	first, last := sizes[0], sizes[len(sizes)-1]
	all := slices.Clone(sizes)
	around := func(n uint64) {
		for _, n := range []uint64{n - 1, n, n + 1} {
			if first <= n && n <= last {
				all = append(all, n)
			}
		}
	}
	for _, r := range rules {
		around(r.Bytes.Min)
		around(r.Bytes.Max)
		if r.BytesPerRank.Min <= last {
			around(r.BytesPerRank.Min * uint64(ranks))
		}
		if r.BytesPerRank.Max <= last {
			around((r.BytesPerRank.Max+1)*uint64(ranks) - 1)
		}
		for _, n := range r.When.Limits("bytes") {
			around(uint64(n))
		}
		for _, n := range r.When.Limits("bytes_per_rank") {
			if n := uint64(n); n <= last {
				around(n * uint64(ranks))
				around((n + 1) * uint64(ranks))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Calls returns a question for each pair of pipe_ops and reg_buff that the rules distinguish.
func (q Question) Calls(rules []*policy.Rule) (calls []Question) {
	pipeOps, regBuffs := []int{1}, []int{0}
	tell := func(n int) {
		if n >= 0 && !slices.Contains(pipeOps, n) {
			pipeOps = append(pipeOps, n)
		}
	}
	for _, r := range rules {
		tell(int(r.Numbers[policy.PipeOps]))
		for _, n := range r.When.Limits("pipe_ops") {
			if n < 1<<16 {
				tell(n - 1)
				tell(n)
				tell(n + 1)
			}
		}
		if r.Numbers[policy.RegBuff] == 1 && len(regBuffs) == 1 {
			regBuffs = append(regBuffs, 1)
		}
	}
	slices.Sort(pipeOps)
	for _, p := range pipeOps {
		for _, r := range regBuffs {
			q.PipeOps, q.RegBuff = p, r
			calls = append(calls, q)
		}
	}
	return calls
}
