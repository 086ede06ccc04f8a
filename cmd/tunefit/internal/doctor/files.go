package doctor

import (
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
	read := func(variable string, want cli.Kind) fileFound {
		file := fileFound{variable: variable, name: d.env.Get(variable)}
		if file.name != "" {
			file.text, file.err = cli.ReadRegular(file.name)
			if file.err != nil {
				file.err = safefile.Reason(file.err)
			} else if is := cli.Sniff(file.text); is.Packed() {
				file.faults = []string{file.name + " is compressed (the library unpacks nothing)"}
			} else if wrong := is.Accept(file.name, want); wrong != nil {
				file.faults = []string{wrong.Error()}
			} else if len(file.text) > policyfile.MaxFileBytes {
				file.err = fmt.Errorf("it is larger than the %s that the tuner reads",
					nccl.FormatBytes(policyfile.MaxFileBytes))
			} else if info, err := os.Stat(file.name); err == nil {
				file.err = safefile.CheckOwner(info, d.env.Get(tuner.EnvFilesTrust) == "1")
				file.foreign = file.err != nil
			}
		}
		return file
	}
	f.policy, f.model = read(tuner.EnvConfigFile, cli.KindPolicy), read(tuner.EnvModelFile, cli.KindModel)
	var err error
	if f.policy.usable() {
		if f.compiled, err = policy.ReadCSV(f.policy.name, f.policy.text); err != nil {
			f.policy.faults = strings.Split(err.Error(), "\n")
		} else if vary := f.compiled.CheckSums(); vary != nil && isOn(d.env, tuner.EnvDeterministic) {
			f.compiled, f.policy.faults = nil, strings.Split(vary.Error(), "\n")
		}
	}
	if f.model.usable() && isOn(d.env, tuner.EnvDeterministic) {
		f.model.faults = []string{"a model chooses by the size of the call, and sums must not depend on that"}
	}
	if f.model.usable() {
		if f.fitted, err = model.Read(f.model.name, f.model.text); err != nil {
			f.model.faults = strings.Split(err.Error(), "\n")
		}
	}
	return f
}

func (f fileFound) usable() bool { return f.name != "" && f.err == nil && len(f.faults) == 0 }

func (d *doctor) examineFiles(context.Context) (found []Finding) {
	f := d.files()
	if f.policy.name == "" && f.model.name == "" {
		do := "set " + tuner.EnvConfigFile + ", " + tuner.EnvModelFile + " or both"
		if isOn(d.env, tuner.EnvStrict) {
			return []Finding{
				failed(do, "neither a policy nor a model is named, and with %s no communicator can be created",
					d.env.Show(tuner.EnvStrict))}
		}
		return []Finding{warned(do, "neither a policy nor a model is named: NCCL decides everything")}
	}
	var here *topo.Machine
	if policy.NeedsTopology(f.compiled, f.fitted) {
		here = d.machine().Here
	}
	for _, file := range []fileFound{f.policy, f.model} {
		if file.name != "" {
			found = append(found, d.fileFindings(file)...)
		}
	}
	if f.compiled != nil {
		found = append(found, d.lintFindings(f.policy, "tunefit check", lint.Check(f.policy.name, f.policy.text,
			lint.Options{Model: f.fitted}))...)
	}
	if f.fitted != nil {
		found = append(found, d.modelFindings(f, here)...)
	}
	if f.compiled != nil {
		said := nccl.ReadRemarks(f.policy.text)
		found = append(found, d.floorFindings(f.policy, said.Floors)...)
		found = append(found, d.lackedVariables(f.policy, said.Under)...)
	}
	if f.fitted != nil {
		found = append(found, d.floorFindings(f.model, f.fitted.Floors())...)
		found = append(found, d.lackedVariables(f.model, f.fitted.MeasuredUnder())...)
	}
	if f.compiled != nil {
		found = append(found, d.measuredElsewhere(f.policy.name)...)
	}
	return append(found, d.versionFinding(f, here)...)
}

// lackedVariables warns of variables that a file was measured under, and that the job does not have.
func (d *doctor) lackedVariables(f fileFound, under []string) []Finding {
	lacked := nccl.LackedVariables(under, d.env.Get)
	if len(lacked) == 0 {
		return nil
	}
	return []Finding{warned("set it for the job, on all nodes; or measure as the job runs (tunefit sweep)",
		"%s was measured under %s, and this job does not have it: NCCL chooses otherwise, and nothing is known of its "+
			"times", f.name, strings.Join(lacked, " "))}
}

// fileFindings says what is wrong with a file's place, owner and text.
func (d *doctor) fileFindings(f fileFound) (found []Finding) {
	outcome := "NCCL decides everything"
	if f.variable == tuner.EnvModelFile {
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
		return []Finding{failed(do, "%s cannot be used, and %s: %v", d.env.Show(f.variable), outcome, f.err)}
	}
	if len(f.faults) > 0 {
		const shown = 5
		do, under := "correct it, and look with: tunefit check "+f.name, ""
		if f.variable == tuner.EnvModelFile {
			do = "fit it anew: tunefit fit"
		}
		if isOn(d.env, tuner.EnvDeterministic) {
			under = " under " + d.env.Show(tuner.EnvDeterministic)
			do = "correct it, and look with: tunefit check --invariant " + f.name
			if f.variable == tuner.EnvModelFile {
				do = "unset " + tuner.EnvModelFile + ", or " + tuner.EnvDeterministic
			}
		}
		return []Finding{failed(do, "%s is refused%s, and %s:\n%s", f.name, under, outcome,
			cli.Few(f.faults, shown, "\n"))}
	}
	found = d.relative(f.variable)
	if real, err := filepath.EvalSymlinks(f.name); err == nil {
		found = append(found, writable(real, "decide for the job")...)
	}
	return found
}

// lintFindings sums up the warnings for a file. fileFindings reports its errors.
func (d *doctor) lintFindings(f fileFound, how string, all []lint.Diagnostic) []Finding {
	all = slices.DeleteFunc(all, func(l lint.Diagnostic) bool { return l.Severity < lint.Warning })
	if len(all) == 0 {
		return nil
	}
	return []Finding{warned("look with: "+how+" "+f.name, "%s in %s, first %s", wording.Plural(len(all), "warning"),
		f.name, all[0])}
}

// modelFindings says what is wrong with a readable model, also on this machine.
func (d *doctor) modelFindings(f filesFound, here *topo.Machine) (found []Finding) {
	var kind *topo.Fingerprint
	if here != nil {
		kind = &here.Fingerprint
	}
	all, _ := lint.CheckModel(f.model.name, f.model.text, kind)
	how := "tunefit check POLICY.csv"
	if f.policy.name != "" {
		how = "tunefit check " + f.policy.name
	}
	found = d.lintFindings(f.model, how, all)
	if standing := policy.NewEngine(nil, f.fitted, here).Standing; standing.Abstains() {
		found = append(found,
			warned("fit a model on this kind of machine (tunefit fit --topo), or run on the one it is for",
				"the model %s %s", f.model.name, standing))
	}
	return found
}

// floorFindings warns of a file whose channels were measured with variables that this job lacks.
func (d *doctor) floorFindings(file fileFound, needs nccl.Floors) []Finding {
	vars, _ := channels.VariablesFromEnv(d.env.Get, nccl.Newest) // its errors are not about numbers of channels
	missing := needs.Above(nccl.Floors{Channels: vars.MinChannels, CTAs: vars.MinCTAs})
	if missing == (nccl.Floors{}) {
		return nil
	}
	return []Finding{
		warned("set it for the job, which changes NCCL's default, too; or fit anew from measurements without it "+
			"(tunefit sweep)",
			"%s needs %s, and this job does not have it: its channels were measured with it, and without it NCCL "+
				"silently uses fewer", file.name, missing)}
}

// measuredElsewhere tells that a policy was measured on another kind of machine, by the topology that NCCL wrote there.
func (d *doctor) measuredElsewhere(policy string) []Finding {
	was, file := ask.MeasuredMachine(policy, d.env.Get)
	if was == nil {
		return nil
	}
	here := d.machine().Here
	if here == nil || was.Fingerprint == here.Fingerprint {
		return nil
	}
	return []Finding{noted("compare tunefit topo with tunefit topo "+file,
		"%s was measured on another kind of machine, by %s: %s; this is %s", policy, file, was.Summary, here.Summary)}
}

// versionFinding names the version that communicators start on, as their log does.
func (d *doctor) versionFinding(f filesFound, here *topo.Machine) []Finding {
	if f.policy.name != "" && f.compiled == nil { // the model is not used either
		return nil
	}
	var what []string
	if f.compiled != nil {
		what = append(what, fmt.Sprintf("%s, %s", f.policy.name, wording.Plural(len(f.compiled.Rules), "row")))
	}
	if f.fitted != nil {
		what = append(what, f.model.name)
	}
	e := policy.NewEngine(f.compiled, f.fitted, here)
	if e.Policy == nil && e.Model == nil {
		return nil
	}
	same := ""
	if d.Nodes > 1 {
		same = fmt.Sprintf(": must be the same on all %d nodes", d.Nodes)
	}
	return []Finding{fine("%s; version %.12s%s", strings.Join(what, "; "), e.Digest.Full(), same)}
}
