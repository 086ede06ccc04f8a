package livejobs

import (
	"fmt"
	"os"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/lint"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// warnings returns what tunefit check warns of in a file that has no error, and what this machine makes doubtful:
// another release of NCCL, and another kind of machine. simulated: its times are.
func (f *Push) warnings(file watchedFile, text []byte) (warnings []string, simulated bool) {
	var found []lint.Diagnostic
	var rules *policy.Policy
	with := nccl.ReadRemarks(text).Measured
	measured, _ := ask.MeasuredMachine(file.path, os.Getenv)
	if file.model {
		var costs *model.Model
		if found, costs = lint.CheckModel(file.path, text, nil); costs != nil {
			with = costs.File.Provenance.NCCL
			if known := costs.File.Provenance.Topology; known != nil {
				measured = known
			}
		}
	} else {
		_, newest, _ := nccl.MeasuredWith(with)
		found = lint.Check(file.path, text, lint.Options{NCCL: newest})
		rules, _ = policy.ReadCSV(file.path, text)
	}
	for _, d := range found {
		if d.Severity >= lint.Warning {
			warnings = append(warnings, d.String())
		}
		simulated = simulated || d.Rule == "simulated" || d.Rule == "model-simulated"
	}
	if why := f.otherRelease(rules, with); why != "" {
		warnings = append(warnings, fmt.Sprintf("%s: warning: %s", file.path, why))
	}
	if measured != nil {
		if here := localenv.ThisMachine(os.Getenv).Here; here != nil && here.Fingerprint != measured.Fingerprint {
			warnings = append(warnings, fmt.Sprintf("%s: warning: it was measured on another kind of machine (%s) "+
				"than this one (%s)", file.path, measured.Summary, here.Summary))
		}
	}
	return warnings, simulated
}

// otherRelease says what keeps a file from this machine's NCCL; with: the releases that it was measured with.
func (f *Push) otherRelease(rules *policy.Policy, with string) string {
	byRelease := rules != nil && rules.AsksRelease()
	oldest, newest, known := nccl.MeasuredWith(with)
	known = known && !nccl.IsRCCL(with)
	if !byRelease && !known {
		return ""
	}
	here := f.Installed()
	if here == 0 {
		return ""
	}
	if byRelease {
		idle := 0
		for _, r := range rules.Rules {
			if !r.NCCL.Contains(nccl.Only(here)) {
				idle++
			}
		}
		if idle > 0 {
			return fmt.Sprintf("%d of %s %s for other releases than NCCL %s of this machine, which keeps its default "+
				"there", idle, wording.Plural(len(rules.Rules), "row"), wording.Verb(idle, "is", "are"), here)
		}
	}
	if known && (here < oldest || here > newest) {
		return fmt.Sprintf("it was measured with NCCL %s, and this machine has %s", with, here)
	}
	return ""
}
