package ask

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

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

// CellAt is the cell at a place in a flat table.
func CellAt(i int) nccl.Cell {
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
	o := Outcome{Question: q, Known: estimated, table: a.table(costs, q, nccl.NoCell), CostModel: a.Costs.Source()}
	if by, ok := a.Costs.StandIn(q.Comm.Comm); ok && (a.Offers == nil || len(a.Offers.Micros) == 0) {
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
		a.Costs.NoteStandIn(w, c.Comm)
	}
	if !a.estimates {
		return
	}
	where := ""
	if a.Files.model != nil {
		where = ", where it was not measured,"
	}
	doubt := a.from.Doubt()
	if doubt != "" {
		doubt += " (--topo FILE names yours, --model FILE what was measured on it)"
	}
	fmt.Fprintf(w, "note: NCCL's default%s is taken from %s%s\n", where, a.Costs.Source(), doubt)
}

// Offers says which cells NCCL has for the calls.
type Offers struct {
	Never  []nccl.Cell           // what it does not have; an algorithm or a protocol of -1 is any
	Micros map[nccl.Cell]float32 // all that it has, instead of its estimates; empty: what these have
}

// limit changes NCCL's table to what a test says.
func (o *Offers) limit(table []float32) {
	for i := range table {
		at := CellAt(i)
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
