package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/plugin/host"
)

func explainCommand() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain COLLECTIVE SIZE --comm NODESxRANKS_PER_NODE",
		Short: "Show the way to one decision: rows, conditions, model, NCCL",
		Long: `Show the way to the decision about one collective: each row and why it does not
match, nearest first, the values that conditions see, what the model expects of each
configuration and why it speaks or is silent, and NCCL's own estimates.

The policy and the model are those that a job started here would use, unless they are
named. The built library is asked, too, through NCCL's plugin ABI; if it decides
otherwise than is explained, that is a defect, and the exit code is 1.

What NCCL chooses by itself is what the model says that it was measured to choose. Where
that was not measured, it is what the cost model of the release that --nccl names
estimates, with the latencies and bandwidths of --tuning, or those that follow from the
topology of --topo. The library is asked by that release's version of the tuner ABI.`,
		Example: `  tunefit explain allreduce 8M --nodes 4 --ranks 32 --policy configs/policies/example.csv
  tunefit explain allgather 64K --comm 2x8 --policy configs/policies/conditions.csv --topo configs/topo/dgx-h100.xml`,
		Args: exactly(2, "a collective and a size, as allreduce 8M"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := f.question(cmd, args)
			if err != nil {
				return err
			}
			p, err := f.explain(f.decider(cmd), q)
			if err != nil {
				return err
			}
			for _, note := range p.notes {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", note)
			}
			p.asker.note(cmd.ErrOrStderr(), []shape{q.shape})
			if f.json {
				err = writeJSON(cmd.OutOrStdout(), p.json())
			} else {
				err = p.write(cmd.OutOrStdout(), f.all)
			}
			return errors.Join(err, p.disagreement())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.by.policy, "policy", "", "policy file (default $"+tuner.EnvConfigFile+")")
	fl.StringVar(&f.by.model, "model", "", "cost model (default $"+tuner.EnvModelFile+")")
	fl.StringVar(&f.comm, "comm", "", "communicator as NODESxRANKS_PER_NODE: 4x8 is 4 nodes of 8 ranks")
	fl.IntVar(&f.nodes, "nodes", 0, "number of nodes; with --ranks it stands for --comm")
	fl.IntVar(&f.ranks, "ranks", 0, "number of ranks of all nodes together; with --nodes it stands for --comm")
	f.nvl.register(cmd)
	fl.IntVar(&f.call.pipeOps, "pipe-ops", 1, "ask as for a group of so many operations, NCCL's numPipeOps")
	fl.IntVar(&f.call.regBuff, "reg-buff", 0, "1: ask as for registered buffers")
	fl.BoolVar(&f.all, "all", false, "show every row, in the file's order, and every configuration")
	fl.BoolVar(&f.json, "json", false, "print JSON, with everything")
	f.who.register(cmd)
	f.from.register(cmd)
	return cmd
}

type explainFlags struct {
	by           decider
	comm         string
	nodes, ranks int
	nvl          nvlDomains
	call         question
	all, json    bool
	who          pluginFlags
	from         costFlags
}

// decider takes what is not named from where a job takes it.
func (f *explainFlags) decider(cmd *cobra.Command) decider {
	d := f.by
	if !cmd.Flags().Changed("policy") {
		d.policy = os.Getenv(tuner.EnvConfigFile)
	}
	if !cmd.Flags().Changed("model") {
		d.model = os.Getenv(tuner.EnvModelFile)
	}
	return d
}

func (f *explainFlags) question(cmd *cobra.Command, args []string) (q question, err error) {
	q = f.call
	if q.coll, err = parseColl(args[0]); err != nil {
		if _, swapped := parseColl(args[1]); swapped == nil {
			return q, usagef("%s is no collective (did you mean: tunefit explain %s %s)", args[0], args[1], args[0])
		}
		return q, usageError{err}
	}
	if q.bytes, err = nccl.ParseBytes(args[1]); err != nil {
		return q, usageError{err}
	}
	if q.bytes < 1 || q.bytes > 1<<50 {
		return q, usagef("a collective of %s (allowed: 1 byte to 1024T)", args[1])
	}
	if q.pipeOps < 1 || q.regBuff < 0 || q.regBuff > 1 {
		return q, usagef("--pipe-ops %d --reg-buff %d (allowed: 1 or more; 0 or 1)", q.pipeOps, q.regBuff)
	}
	if q.shape, err = f.shape(cmd); err != nil {
		return q, err
	}
	if q.shape, err = q.shape.spanning(f.nvl); err != nil {
		return q, usagef("--nvl-domains: %w", err)
	}
	return q, nil
}

func (f *explainFlags) shape(cmd *cobra.Command) (shape, error) {
	nodes, ranks := cmd.Flags().Changed("nodes"), cmd.Flags().Changed("ranks")
	switch {
	case f.comm != "" && (nodes || ranks):
		return shape{}, usagef("--comm and --nodes, --ranks exclude each other")
	case f.comm != "":
		return parseShape(f.comm)
	case !nodes || !ranks:
		return shape{}, usagef("which communicator? (needed: --comm 4x8, or --nodes 4 --ranks 32)")
	case f.ranks >= 1 && f.nodes > f.ranks && f.nodes <= maxRanks:
		return shape{}, usagef("%d ranks on %d nodes: a node has at least one rank (did you mean --nodes %d --ranks %d; --ranks counts those of all nodes)", f.ranks, f.nodes, f.ranks, f.nodes)
	case f.nodes < 1 || f.ranks < 2 || f.ranks > maxRanks:
		return shape{}, usagef("--nodes %d --ranks %d (allowed: at least 1 node and 2 ranks)", f.nodes, f.ranks)
	}
	return shape{nodes: f.nodes, ranks: f.ranks}, nil
}

// decisionPath is the way to one decision, and what the built library decides.
type decisionPath struct {
	policy.Explanation
	by       decider
	question question
	engine   *policy.Engine
	sheet    *policy.Sheet // the policy's text; nil without
	expected model.Choice
	hasGain  bool

	estimated []float32       // by NCCL's cost model, with the model's constants
	asked     outcome         // of the library
	written   []host.Constant // by the library
	costs     *tuning.Tuning
	asker     *asker
	notes     []string
}

func (f *explainFlags) explain(d decider, q question) (*decisionPath, error) {
	if d == (decider{}) {
		return nil, usagef("nothing to explain (needed: --policy, --model, $%s or $%s)", tuner.EnvConfigFile, tuner.EnvModelFile)
	}
	files, err := d.read()
	if err != nil {
		return nil, err
	}
	p := &decisionPath{by: d, question: q}
	if d.policy != "" {
		text, err := readInput(d.policy, kindPolicy)
		if err != nil {
			return nil, err
		}
		if p.sheet, err = policy.ReadSheet(text); err != nil {
			return nil, err
		}
	}
	a, err := newAsker(f.who, f.from, files)
	if err != nil {
		return nil, err
	}
	defer a.close()
	q.shape = q.shape.through(a.abi)
	p.question = q
	answers, err := a.ask(d, q.shape, []question{q})
	if err != nil {
		return nil, err
	}
	p.asked, p.asker, p.engine = answers[0], a, a.engine
	// Why the model is silent is explained, not noted.
	p.notes = slices.DeleteFunc(a.notes, func(note string) bool { return strings.HasSuffix(note, leftToNCCL) })
	if p.costs, err = a.tuning(d, q.shape); err != nil {
		return nil, err
	}
	p.estimated = a.table(p.costs, q, noCell)
	p.written = a.comms[commKey{d, q.shape}].Constants
	view := p.engine.For(q.shape.comm(p.asked.release))
	p.Explanation = view.Explain(q.query(p.asked.table, p.asked.abi))
	p.expected, p.hasGain = view.Expect(q.query(p.asked.table, p.asked.abi), p.Decision)
	return p, nil
}

// decidedBy names what the explanation says decides, as outcome.decidedBy does.
func (p *decisionPath) decidedBy() string {
	switch p.By {
	case policy.ByRow:
		return fmt.Sprintf("%s:%d", p.by.policy, p.engine.Policy.Rules[p.Rule].Line)
	case policy.ByModel:
		return p.by.model
	}
	return p.asked.byNCCL(p.by)
}

// constants are those of NCCL's that the model replaces with this release: none where the ABI has none, or where NCCL
// sets its own after that.
func (p *decisionPath) constants() []model.Constant {
	if p.asked.release.Has(nccl.TunerConstants) && !p.asked.release.Has(nccl.TunerConstantsLost) {
		return p.engine.Constants()
	}
	return nil
}

// explained is what NCCL would do if the explanation were right.
func (p *decisionPath) explained() outcome {
	table := slices.Clone(p.asked.table)
	channels := p.Channels
	if p.Write {
		at := int(p.Algo)*nccl.NumProtos + int(p.Proto)
		table[at] = p.Micros
		if p.asked.abi == nccl.ABINoCosts {
			table[at] = 0
		}
	} else if p.asked.abi == nccl.ABINoCosts {
		channels = 0 // they go with an algorithm there
	}
	after := choose(p.costs, table, p.question.bytes)
	o := outcome{policy: cellOf(after), channels: channels, release: p.asked.release}
	o.keepLower(after.Channels)
	if p.asked.abi >= nccl.ABIChunks {
		o.chunk = int64(p.ChunkBytes)
	}
	return o
}

// disagreement is the defect that the library decides otherwise than is explained, or
// that the explanation names another row than the engine does.
func (p *decisionPath) disagreement() error {
	for _, t := range p.Rows {
		if (t.Verdict == policy.RowDecides) != (t.Rule == p.Rule) {
			return fmt.Errorf("DEFECT: the explanation of row %d is not that of the decision, which row %d makes; please report it with the files", t.Rule+1, p.Rule+1)
		}
	}
	if replaced := p.constants(); !writes(p.written, replaced, p.asked.release) {
		return fmt.Errorf("DEFECT: the library replaces other constants of NCCL's than the model says, %v instead of %v; please report it with the files", p.written, replaced)
	}
	said, got := p.decidedBy(), p.asked.decidedBy(p.by)
	if x := p.explained(); !x.alike(p.asked) || said != got {
		return fmt.Errorf("DEFECT: the library decides %s, by %s; explained is %s, by %s; please report it with the files",
			p.asked.choice(), got, x.choice(), said)
	}
	return nil
}
