package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/lint"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
)

// filesFound are the policy and the model that the environment names.
type filesFound struct {
	policy, model fileFound
	compiled      *policy.Policy // nil: none, or faulty
	fitted        *model.Model
}

// fileFound is a file that a variable names.
type fileFound struct {
	variable, name string // name "": there is no file
	text           []byte
	err            error // it cannot be used
	foreign        bool  // because others can change it
	faults         []string
}

func (d *doctor) readFiles() (f filesFound) {
	f.policy = d.readFile(tuner.EnvConfigFile, cli.KindPolicy)
	f.model = d.readFile(tuner.EnvModelFile, cli.KindModel)
	alike := isOn(d.env, tuner.EnvDeterministic)
	var err error
	if f.policy.usable() {
		if f.compiled, err = policy.ReadCSV(f.policy.name, f.policy.text); err != nil {
			f.policy.faults = strings.Split(err.Error(), "\n")
		} else if vary := f.compiled.CheckSums(); vary != nil && alike {
			f.compiled, f.policy.faults = nil, strings.Split(vary.Error(), "\n")
		}
	}
	if f.model.usable() && alike {
		f.model.faults = []string{"a model chooses by the size of the call, and sums must not depend on that"}
	} else if f.model.usable() {
		if f.fitted, err = model.Read(f.model.name, f.model.text); err != nil {
			f.model.faults = strings.Split(err.Error(), "\n")
		}
	}
	return f
}

// readFile reads what a variable names, as the library does.
func (d *doctor) readFile(variable string, want cli.Kind) fileFound {
	f := fileFound{variable: variable, name: d.env.Get(variable)}
	if f.name == "" {
		return f
	}
	if f.text, f.err = cli.ReadRegular(f.name); f.err != nil {
		f.err = safefile.Reason(f.err)
		return f
	}
	is := cli.Sniff(f.text)
	wrong := is.Accept(f.name, want)
	switch info, err := os.Stat(f.name); {
	case is.Packed():
		f.faults = []string{f.name + " is compressed (the library unpacks nothing)"}
	case wrong != nil:
		f.faults = []string{wrong.Error()}
	case len(f.text) > policyfile.MaxFileBytes:
		f.err = fmt.Errorf("it is larger than the %s that the tuner reads", nccl.FormatBytes(policyfile.MaxFileBytes))
	case err == nil:
		f.err = safefile.CheckOwner(info, d.env.Get(tuner.EnvFilesTrust) == "1")
		f.foreign = f.err != nil
	}
	return f
}

func (f fileFound) usable() bool { return f.name != "" && f.err == nil && len(f.faults) == 0 }

func (d *doctor) examineFiles(_ context.Context, r *report) {
	f := d.files()
	if f.policy.name == "" && f.model.name == "" {
		do := "set " + tuner.EnvConfigFile + ", " + tuner.EnvModelFile + " or both"
		if isOn(d.env, tuner.EnvStrict) {
			r.fail(do, "neither a policy nor a model is named, and with %s no communicator can be created",
				d.env.Show(tuner.EnvStrict))
		} else {
			r.warn(do, "neither a policy nor a model is named: NCCL decides everything")
		}
		return
	}
	var here *topo.Machine
	if policy.NeedsTopology(f.compiled, f.fitted) {
		here = d.machine().Here
	}
	d.examineFile(r, f.policy)
	d.examineFile(r, f.model)
	if f.compiled != nil {
		said := nccl.ReadRemarks(f.policy.text)
		lintFile(r, f.policy.name, "tunefit check "+f.policy.name, lint.Check(f.policy.name, f.policy.text,
			lint.Options{Model: f.fitted}))
		d.measuredOtherwise(r, f.policy.name, said.Floors, said.Under)
		d.measuredElsewhere(r, f.policy.name)
	}
	if f.fitted != nil {
		var kind *topo.Fingerprint
		if here != nil {
			kind = &here.Fingerprint
		}
		all, _ := lint.CheckModel(f.model.name, f.model.text, kind)
		lintFile(r, f.model.name, "tunefit check "+cmp.Or(f.policy.name, "POLICY.csv")+" "+f.model.name, all)
		if standing := policy.NewEngine(nil, f.fitted, here).Standing; standing.Abstains() {
			r.warn("fit a model on this kind of machine (tunefit fit --topo), or run on the one it is for",
				"the model %s %s", f.model.name, standing)
		}
		d.measuredOtherwise(r, f.model.name, f.fitted.Floors(), f.fitted.MeasuredUnder())
	}
	if f.policy.name == "" || f.compiled != nil { // else the model is not used either
		d.version(r, f, here)
	}
}

// examineFile says what is wrong with a file's place, owner and text.
func (d *doctor) examineFile(r *report, f fileFound) {
	if f.name == "" {
		return
	}
	isModel, outcome := f.variable == tuner.EnvModelFile, "NCCL decides everything"
	if isModel {
		outcome = "it is not used"
	}
	if isOn(d.env, tuner.EnvStrict) {
		outcome = "with " + d.env.Show(tuner.EnvStrict) + " no communicator can be created"
	}
	if f.err != nil {
		do := "correct the path, the owner or the permissions, on every node"
		if f.foreign {
			do = "if whoever can change it may decide for the job: " + tuner.EnvFilesTrust + "=1; else name a copy " +
				"of your own, or have the administrator make it root's, mode 644"
		}
		r.fail(do, "%s cannot be used, and %s: %v", d.env.Show(f.variable), outcome, f.err)
		return
	}
	if len(f.faults) > 0 {
		do, under := "correct it, and look with: tunefit check "+f.name, ""
		deterministic := isOn(d.env, tuner.EnvDeterministic)
		if deterministic {
			under = " under " + d.env.Show(tuner.EnvDeterministic)
		}
		switch {
		case deterministic && isModel:
			do = "unset " + tuner.EnvModelFile + ", or " + tuner.EnvDeterministic
		case deterministic:
			do = "correct it, and look with: tunefit check --invariant " + f.name
		case isModel:
			do = "fit it anew: tunefit fit"
		}
		r.fail(do, "%s is refused%s, and %s:\n%s", f.name, under, outcome, cli.Few(f.faults, 5, "\n"))
		return
	}
	d.relative(r, f.variable)
	if real, err := filepath.EvalSymlinks(f.name); err == nil {
		writable(r, real, "decide for the job")
	}
}

// lintFile sums up the warnings for a file. examineFile reports its errors.
func lintFile(r *report, name, how string, all []lint.Diagnostic) {
	all = slices.DeleteFunc(all, func(l lint.Diagnostic) bool { return l.Severity < lint.Warning })
	if len(all) > 0 {
		r.warn("look with: "+how, "%s in %s, first %s", wording.Plural(len(all), "warning"), name, all[0])
	}
}

// measuredOtherwise warns of a file that was measured with variables that this job lacks.
func (d *doctor) measuredOtherwise(r *report, file string, needs nccl.Floors, under []string) {
	vars, _ := channels.VariablesFromEnv(d.env.Get, nccl.Newest) // its errors are not about numbers of channels
	if missing := needs.Above(nccl.Floors{Channels: vars.MinChannels, CTAs: vars.MinCTAs}); missing != (nccl.Floors{}) {
		r.warn("set it for the job, which changes NCCL's default, too; or fit anew from measurements without it "+
			"(tunefit sweep)", "%s needs %s, and this job does not have it: its channels were measured with it, and "+
			"without it NCCL silently uses fewer", file, missing)
	}
	if lacked := nccl.LackedVariables(under, d.env.Get); len(lacked) > 0 {
		r.warn("set it for the job, on all nodes; or measure as the job runs (tunefit sweep)",
			"%s was measured under %s, and this job does not have it: NCCL chooses otherwise, and nothing is known "+
				"of its times", file, strings.Join(lacked, " "))
	}
}

// measuredElsewhere tells that a policy was measured on another kind of machine, by the topology that NCCL wrote there.
func (d *doctor) measuredElsewhere(r *report, policy string) {
	was, file := ask.MeasuredMachine(policy, d.env.Get)
	if was == nil {
		return
	}
	if here := d.machine().Here; here != nil && was.Fingerprint != here.Fingerprint {
		r.note("compare tunefit topo with tunefit topo "+file,
			"%s was measured on another kind of machine, by %s: %s; this is %s", policy, file, was.Summary,
			here.Summary)
	}
}

// version names the version that communicators start on, as their log does.
func (d *doctor) version(r *report, f filesFound, here *topo.Machine) {
	e := policy.NewEngine(f.compiled, f.fitted, here)
	if e.Policy == nil && e.Model == nil {
		return
	}
	var what []string
	if f.compiled != nil {
		what = append(what, fmt.Sprintf("%s, %s", f.policy.name, wording.Plural(len(f.compiled.Rules), "row")))
	}
	if f.fitted != nil {
		what = append(what, f.model.name)
	}
	same := ""
	if d.Nodes > 1 {
		same = fmt.Sprintf(": must be the same on all %d nodes", d.Nodes)
	}
	r.fine("%s; version %.12s%s", strings.Join(what, "; "), e.Digest.Full(), same)
}
