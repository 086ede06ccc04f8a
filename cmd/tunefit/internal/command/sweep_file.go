package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// notPlanned are the flags of tunefit sweep that are about one call of it.
var notPlanned = []string{"output", "dry-run", "from", "init", "json", "help", "prove", "policy"}

// writePlanFile writes all flags with their values and what they mean.
func writePlanFile(w io.Writer, flags *pflag.FlagSet) error {
	var out strings.Builder
	out.WriteString(`# What tunefit sweep measures, and how. Each setting is an option of the command,
# which has the last word. A # before a setting leaves it at its default.
#
# Under Slurm, on four nodes of eight GPUs:
#   salloc -N 4 --gpus-per-node=8 --exclusive tunefit sweep plan.yaml -o sweep
# with launch: slurm and launch-args: --mpi=pmix --cpu-bind=none
`)
	flags.VisitAll(func(f *pflag.Flag) {
		if slices.Contains(notPlanned, f.Name) {
			return
		}
		fmt.Fprintf(&out, "\n# %s\n", f.Usage)
		value := f.Value.String()
		list, isList := f.Value.(pflag.SliceValue)
		if isList {
			value = "[" + strings.Join(list.GetSlice(), ", ") + "]"
		} else if text, err := yaml.Marshal(value); err == nil && f.Value.Type() == "string" {
			value = strings.TrimSpace(string(text))
		}
		set := "#" // the default, which may be another where other settings are
		if f.Changed {
			set = ""
		}
		fmt.Fprintf(&out, "%s%s: %s\n", set, f.Name, value)
	})
	_, err := io.WriteString(w, out.String())
	return err
}

// mostPlan bounds a file of settings, which has a few KiB.
const mostPlan = 1 << 20

// readPlanFile sets the flags that were not given.
func readPlanFile(name string, flags *pflag.FlagSet) error {
	text, err := safefile.Read(name, mostPlan)
	if err != nil {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(document.Content) == 0 { // nothing but comments
		return nil
	}
	top := document.Content[0]
	if top.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: not settings (needed: NAME: VALUE, as tunefit sweep --init prints them)",
			name, top.Line)
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(notPlanned, f.Name) {
			names = append(names, f.Name)
		}
	})
	seen := map[string]bool{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		at := fmt.Sprintf("%s:%d:%d", name, key.Line, key.Column)
		switch {
		case !slices.Contains(names, key.Value):
			return fmt.Errorf("%s: unknown setting %s (%sallowed: %s)", at, wording.Quote(key.Value),
				wording.DidYouMean(key.Value, names), strings.Join(names, ", "))
		case seen[key.Value]:
			return fmt.Errorf("%s: %s is set twice", at, key.Value)
		}
		seen[key.Value] = true
		f := flags.Lookup(key.Value)
		if f.Changed {
			continue
		}
		values := []*yaml.Node{value}
		_, isList := f.Value.(pflag.SliceValue)
		if isList && value.Kind == yaml.SequenceNode {
			values = value.Content
		}
		var texts []string
		for _, v := range values {
			if v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
				return fmt.Errorf("%s: %s: not a value (needed: one%s)", at, f.Name,
					map[bool]string{true: ", or a list, as [a, b]"}[isList])
			}
			if err := checkSubject(f.Name, v.Value); err != nil {
				// %v: the file is wrong, not the command line
				return fmt.Errorf("%s:%d:%d: %v", name, v.Line, v.Column, err)
			}
			texts = append(texts, v.Value)
		}
		if len(texts) == 0 {
			continue
		}
		err := flags.Set(f.Name, strings.Join(texts, ","))
		if err != nil {
			return fmt.Errorf("%s: %w", at, cli.WrongValue(err))
		}
	}
	return nil
}

// checkSubject reads what a setting names. Later, nobody knows where in a file it stands.
func checkSubject(setting, text string) (err error) {
	switch setting {
	case "coll":
		_, err = (&cli.CallFlags{Colls: strings.Split(text, ",")}).ParseColls()
	case "comm":
		_, err = (&cli.CallFlags{Comms: strings.Split(text, ",")}).ParseComms(nil)
	case "sizes":
		_, _, err = cli.ParseSizes(text)
	}
	return err
}
