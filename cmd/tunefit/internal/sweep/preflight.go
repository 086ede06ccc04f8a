package sweep

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/launch"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/measure"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// lookAround is what each rank does in the preflight: it prints a line for each thing that is missing where it runs,
// and one at its end. Its arguments are our library and the sweep's folder, both empty where runs need neither, then
// the programs.
const lookAround = `node=$(uname -n) library=$1 folder=$2
shift 2
say() { echo "tunefit-preflight: $node $*"; }
for program; do
  path=$(command -v "$program") || { say program "$program"; continue; }
  command -v ldd >/dev/null || continue
  lost=$(ldd "$path" 2>&1 | grep 'not found' | head -n 1)
  [ -z "$lost" ] || say needs "$program:" $lost
done
[ -z "$folder" ] || [ -d "$folder" ] || say folder "$folder"
if [ -n "$library" ] && [ ! -r "$library" ]; then
  say library "$library"
elif [ -n "$library" ]; then
  said=$(LD_PRELOAD=$library /bin/true 2>&1 | head -n 1)
  case $said in *"$library"*) say loads "$library:" $said ;; esac
fi
say done`

var preflightLine = regexp.MustCompile(`(?m)tunefit-preflight: (\S+) (program|needs|folder|library|loads|done)(?: (.*?))?\s*$`)

// lacks are what the preflight finds to be missing, and what to do.
var lacks = map[string][2]string{
	"program": {"there is no program %s", "--perf-dir names the folder of nccl-tests' programs, as all nodes see it"},
	"needs":   {"a library is missing: %s", "LD_LIBRARY_PATH has to name its folder on each node, or the programs are built anew"},
	"folder":  {"the sweep's folder %s is not there", "-o has to name a folder that all nodes see"},
	"library": {"there is no tuner library %s", "--plugin names it, in a folder that all nodes see"},
	"loads":   {"the tuner library cannot be loaded: %s", "--plugin names one that is built for these nodes"},
}

// preflight looks on the nodes of the next run for what runs need, by the same launcher, unless it has looked there.
// It is no run: nothing is measured, and the journal does not tell of it.
func (s *Sweep) preflight(ctx context.Context, key fit.Key) error {
	if !s.Launcher.Submits() { // all nodes are there, so what is wrong with any is said before hours of measuring
		key = slices.MaxFunc(s.Keys, func(a, b fit.Key) int {
			return cmp.Or(cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Ranks, b.Ranks))
		})
	}
	if key.Nodes <= s.looked {
		return nil
	}
	argv := []string{"/bin/sh", "-c", lookAround, "sh", "", ""}
	if !s.Environment || s.Proof > 0 {
		folder, err := filepath.Abs(filepath.Join(s.Dir, "policies"))
		if err != nil {
			return err
		}
		argv[4], argv[5] = s.Library, folder
	}
	for _, k := range s.Keys {
		if p := s.program(k); !slices.Contains(argv, p) {
			argv = append(argv, p)
		}
	}
	processes, _ := s.Launcher.Processes(key.Nodes, key.Ranks/key.Nodes)
	command, err := s.Launcher.Command(launch.Program{Argv: argv, Nodes: key.Nodes, RanksPerNode: processes / key.Nodes})
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.Dir, "preflight.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	p := process{argv: command, mark: s.mark(), output: log, silence: s.Silence, grace: grace}
	p.env = append(cleaned(os.Environ()), p.mark)
	ended := p.run(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	text, err := os.ReadFile(log.Name())
	if err != nil {
		return err
	}
	nodes, problem := found(string(text))
	if code := s.Launcher.ExitCode(ended, text); problem == "" && (code != 0 || ended != nil || len(nodes) == 0) {
		problem = fmt.Sprintf("the launcher did not start a shell on all of %s: exit code %d: %s",
			cli.CountOf(key.Nodes, "node"), code, cmp.Or(lastLine(text), "it printed nothing"))
		if blamed := s.Launcher.Blame(text); len(blamed) > 0 {
			problem += "; it names " + strings.Join(blamed, ", ")
		}
		problem += fmt.Sprintf(" (see %s; --launch, --launch-args and --hosts say how nodes are reached)", log.Name())
	}
	if problem != "" {
		return fmt.Errorf("nothing was run: %s", problem)
	}
	s.looked = key.Nodes
	s.Say("preflight: nothing that runs need is missing on %s", cli.Few(nodes, 8, ", "))
	return nil
}

// found reads what ranks have printed: the nodes that answered, and what is missing where, with what to do.
func found(text string) (nodes []string, problem string) {
	where, order := map[[2]string][]string{}, [][2]string{}
	for _, m := range preflightLine.FindAllStringSubmatch(text, -1) {
		node, what := m[1], [2]string{m[2], m[3]}
		if !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
		if what[0] == "done" || slices.Contains(where[what], node) {
			continue
		}
		if where[what] == nil {
			order = append(order, what)
		}
		where[what] = append(where[what], node)
	}
	slices.Sort(nodes)
	var problems []string
	slices.SortStableFunc(order, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
	for i, what := range order {
		at, lack := where[what], lacks[what[0]]
		slices.Sort(at)
		text := fmt.Sprintf("on %s "+lack[0], cli.Few(at, 8, ", "), what[1])
		if i+1 == len(order) || order[i+1][0] != what[0] { // what to do is the same for all of a kind
			text += " (" + lack[1] + ")"
		}
		problems = append(problems, text)
	}
	return nodes, strings.Join(problems, "; ")
}

// program is the one of nccl-tests that measures a subject, as nodes find it.
func (s *Sweep) program(key fit.Key) string {
	program := measure.Program(key.Coll)
	if s.Programs != "" {
		program = filepath.Join(s.Programs, program)
	}
	return program
}
