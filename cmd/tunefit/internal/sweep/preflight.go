package sweep

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/launch"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// lookAround is what each rank does in the preflight: it prints a line for each thing that is missing where it runs,
// and one at its end. Its arguments are our library, the sweep's folder and the first line of the preflight's log there
// (a node may have a folder of its own by that name), then the programs.
const lookAround = `node=${SLURMD_NODENAME:-$(uname -n)} library=$1 folder=$2 mark=$3

shift 3
say() { echo "tunefit-preflight: $node $*"; }
for program; do
  path=$(command -v "$program") && [ -f "$path" ] && [ -x "$path" ] || { say program "$program"; continue; }
  command -v ldd >/dev/null || continue
  lost=$(ldd "$path" 2>&1 | grep 'not found' | head -n 1)
  [ -z "$lost" ] || say needs "$program:" $lost
done
same() { read -r first <"$folder/` + preflightLog + `" && [ "$first" = "$mark" ]; }
same 2>/dev/null || say folder "$folder"
if [ ! -r "$library" ]; then
  say library "$library"
else
  if said=$(LD_PRELOAD=$library /bin/sh -c : 2>&1); then
    said=$(echo "$said" | grep -F "$library")
  else
    said=${said:-exit code $?}
  fi
  [ -z "$said" ] || say loads "$library:" $(echo "$said" | head -n 1)
fi
say done`

const preflightLog = "preflight.log"

var preflightLine = regexp.MustCompile(
	`(?m)tunefit-preflight: (\S+) (program|needs|folder|library|loads|done)(?: (.*?))?\s*$`)

// lacks are what the preflight finds to be missing, and what to do.
var lacks = map[string][2]string{
	"program": {"there is no program %s", "--perf-dir names the folder of nccl-tests' programs, as all nodes see it"},
	"needs": {"a library is missing: %s",
		"LD_LIBRARY_PATH has to name its folder on each node, or the programs are built anew"},
	"folder": {"the sweep's folder %s is not the one that tunefit writes to",
		"-o has to name a folder that all nodes see"},
	"library": {"there is no tuner library %s", "--plugin names it, in a folder that all nodes see"},
	"loads":   {"the tuner library cannot be loaded: %s", "--plugin names one that is built for these nodes"},
}

// preflight looks for what runs need on the nodes of the next run, by the same launcher. It looks once at each set of
// nodes. It is not a run: it measures nothing, and the journal does not mention it.
func (s *Sweep) preflight(ctx context.Context, key fit.Key) error {
	if !s.Launcher.Submits() { // all nodes are there: what is wrong with one is said before hours of measuring
		key = slices.MaxFunc(s.Keys, func(a, b fit.Key) int { return a.Comm.Compare(b.Comm) })
	}
	if job := s.Launcher.Job(); job != s.job { // another one has other nodes
		s.looked, s.job = 0, job
	}
	if key.Nodes <= s.looked {
		return nil
	}
	mark := fmt.Sprintf("# %016x\n", rand.Uint64())
	folder, err := filepath.Abs(s.Dir)
	if err != nil {
		return err
	}
	argv := []string{"/bin/sh", "-c", lookAround, "sh", s.Library, folder, strings.TrimSpace(mark)}
	for _, k := range s.Keys {
		if p := s.program(k); !slices.Contains(argv, p) {
			argv = append(argv, p)
		}
	}
	processes, _ := s.Launcher.Processes(key.Nodes, key.Ranks/key.Nodes)
	command, err := s.Launcher.Command(launch.Program{Argv: argv, Nodes: key.Nodes,
		RanksPerNode: processes / key.Nodes})
	if err != nil {
		return err
	}
	file := filepath.Join(s.Dir, preflightLog)
	if err := os.WriteFile(file, []byte(mark), 0o644); err != nil { // closed: only then all nodes see it
		return err
	}
	log, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
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
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text = bytes.TrimPrefix(text, []byte(mark))
	nodes, answers, problem := found(string(text))
	if problem == "" {
		problem = s.unreached(ended, text, key.Nodes, processes, nodes, answers)
	}
	if problem != "" {
		return fmt.Errorf("nothing was run: %s", problem)
	}
	s.looked = key.Nodes
	alone := ""
	if answers < key.Nodes {
		alone = fmt.Sprintf(", where one shell answered for %d nodes", key.Nodes)
	}
	s.Say("preflight: nothing that runs need is missing on %s%s", cli.Few(nodes, 8, ", "), alone)
	return nil
}

// unreached says which nodes the launcher did not reach; empty: it reached all. The exit code alone does not tell: some
// launchers end well though a node failed. One shell that answers may stand for all nodes: launchers that tests use
// do that.
func (s *Sweep) unreached(ended error, text []byte, want, processes int, nodes []string, answers int) string {
	code := s.Launcher.ExitCode(ended, text)
	well, all := code == 0 && ended == nil && answers > 0, len(nodes) >= want || answers >= processes
	if well && all {
		return ""
	}
	blamed := s.Launcher.Blame(text)
	if well && answers == 1 && len(blamed) == 0 {
		return ""
	}
	how := fmt.Sprintf("exit code %d: %s", code, cmp.Or(telling(text, blamed), "it printed nothing"))
	if errors.Is(ended, errSilent) {
		how = fmt.Sprintf("nothing more was printed for %v", s.Silence)
	}
	if len(blamed) > 0 {
		how += "; it names " + strings.Join(blamed, ", ")
	}
	if len(nodes) > 0 {
		how += "; " + cli.Few(nodes, 8, ", ") + " answered"
	}
	return fmt.Sprintf("the launcher did not start a shell on all of %s: %s "+
		"(see %s; --launch, --launch-args and --hosts say how nodes are reached)",
		plural.Of(want, "node"), how, filepath.Join(s.Dir, preflightLog))
}

// telling is the line of a launcher's that tells the most: the first that names a node that it blames, or its last.
func telling(text []byte, blamed []string) string {
	text = preflightLine.ReplaceAll(text, nil)
	for line := range strings.Lines(string(text)) {
		if len(blamed) > 0 && strings.Contains(line, blamed[0]) {
			return strings.TrimSpace(line)
		}
	}
	return lastLine(text)
}

// found reads what ranks have printed: the nodes that answered, how many ranks came to their end, and what is missing
// where, with what to do.
func found(text string) (nodes []string, answers int, problem string) {
	where, order := map[[2]string][]string{}, [][2]string{}
	for _, m := range preflightLine.FindAllStringSubmatch(text, -1) {
		node, what := m[1], [2]string{m[2], m[3]}
		if !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
		if what[0] == "done" {
			answers++
			continue
		}
		if where[what] == nil {
			order = append(order, what)
		}
		if !slices.Contains(where[what], node) {
			where[what] = append(where[what], node)
		}
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
	sound := slices.DeleteFunc(slices.Clone(nodes), func(node string) bool {
		return slices.ContainsFunc(order, func(what [2]string) bool { return slices.Contains(where[what], node) })
	})
	if len(problems) > 0 && len(sound) > 0 {
		problems = append(problems, fmt.Sprintf("on %s nothing is missing "+
			"(--hosts, or -x among Slurm's --launch-args, leave nodes out)", cli.Few(sound, 8, ", ")))
	}
	return nodes, answers, strings.Join(problems, "; ")
}
