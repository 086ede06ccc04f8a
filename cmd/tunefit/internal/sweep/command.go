package sweep

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/launch"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// process makes the command of a start: the program's options, and the environment that decides.
func (s *Sweep) process(start *perfrun.Start, step perfrun.Step, kind Kind) (p process, err error) {
	processes, gpus := s.Launcher.Processes(start.Key.Nodes, start.Key.Ranks/start.Key.Nodes)
	env := map[string]string{}
	if kind == Loaded {
		env["NCCL_TUNER_PLUGIN"] = s.Library
	} else if start.Policy != "" {
		policy, err := s.policyFile(start)
		if err != nil {
			return p, err
		}
		env = perfrun.Tuned(s.Library, policy)
	}
	// NCCL's log of each call costs a little time, so runs whose times are promised do without.
	env["NCCL_DEBUG"], env["NCCL_DEBUG_SUBSYS"] = "INFO", "INIT,ENV"
	if kind == Measure {
		env["NCCL_DEBUG_SUBSYS"] += ",TUNING"
	}
	p = process{mark: s.mark(), silence: s.Silence, grace: grace}
	p.argv, err = s.Launcher.Command(launch.Program{
		Argv:  slices.Concat([]string{s.program(start.Key)}, step.Args(), []string{"-g", strconv.Itoa(gpus)}, s.Args),
		Env:   env,
		Nodes: start.Key.Nodes, RanksPerNode: processes / start.Key.Nodes,
	})
	return p, err
}

// program is the one of nccl-tests that measures a subject, as nodes find it.
func (s *Sweep) program(key fit.Key) string {
	program := perfrun.Program(key.Coll)
	if s.Programs != "" {
		program = filepath.Join(s.Programs, program)
	}
	return program
}

// policyFile is what decides a start, as ranks on other nodes find it.
func (s *Sweep) policyFile(start *perfrun.Start) (string, error) {
	return filepath.Abs(filepath.Join(s.Dir, "policies", start.Policy+".csv"))
}

// writePolicy makes the file.
func (s *Sweep) writePolicy(start *perfrun.Start) error {
	if len(start.Rows) == 0 { // of no policy, or one that is there
		return nil
	}
	name, err := s.policyFile(start)
	if err != nil {
		return err
	}
	return cli.WriteWhole(name, true, func(w io.Writer) error {
		for _, row := range start.Rows {
			if _, err := fmt.Fprintln(w, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// decisive are variables that would decide instead of what is measured, refuse it, or hide what ran.
var decisive = []string{
	"NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS",
	"NCCL_TUNER_PLUGIN", tuner.EnvConfigFile, tuner.EnvModelFile, tuner.EnvDeterministic,
	"NCCL_DEBUG_FILE",
}

// noteDecisive says which of them are set. Runs do not get them.
func (s *Sweep) noteDecisive() {
	var set []string
	for _, name := range decisive {
		if os.Getenv(name) != "" {
			set = append(set, name)
		}
	}
	if len(set) > 0 {
		s.Say("runs do not get these variables, which would decide for them: %s", strings.Join(set, ", "))
	}
}

// cleaned removes them from an environment.
func cleaned(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(decisive, name)
	})
}
