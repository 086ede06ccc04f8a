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
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/launch"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// preflightScript is what each rank does in the preflight: it prints a line for each thing that is missing where it
// runs, and one at its end, with the GPUs that it sees if nvidia-smi tells. node is set before it. Its arguments are
// our library, the sweep's folder and the first line of the preflight's log there (a node may have a folder of its own
// by that name), then the programs. Simulated nccl-tests need no GPU.
const preflightScript = `library=$1 folder=$2 mark=$3 gpus= seen=

shift 3
say() { echo "tunefit-preflight: $node $*"; }
for program; do
  path=$(command -v "$program") && [ -f "$path" ] && [ -x "$path" ] || { say program "$program"; continue; }
  case $(readlink -f "$path") in */nccl-tests-fakeperf) ;; *) gpus=needed ;; esac
  command -v ldd >/dev/null || continue
  lost=$(ldd "$path" 2>&1 | grep 'not found' | head -n 1)
  [ -z "$lost" ] || say needs "$program:" $lost
done
limit=$(command -v timeout) && limit="$limit 30"
for program; do
  command -v "$program" >/dev/null || continue
  said=$($limit "$program" --help 2>&1 </dev/null)
  case $said in
  *run_cycles*) say cycles -N ;;
  *stress_cycles*) say cycles -s ;;
  *minbytes*) say cycles none ;;
  *) say help "$program" --help says: $(echo "$said" | head -n 1 | cut -c 1-200) ;;
  esac
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
[ -z "$gpus" ] || ! command -v nvidia-smi >/dev/null ||
  seen="[${CUDA_VISIBLE_DEVICES-all}]$(nvidia-smi -L | sed -n 's/.*(UUID: \(.*\))$/\1/p' | tr '\n' ' ')"
say done "$seen"`

const preflightLog = "preflight.log"

var preflightLine = regexp.MustCompile(
	`(?m)tunefit-preflight: (\S+) (program|needs|help|folder|library|loads|cycles|done)(?: (.*?))?\s*$`)

// lacks are what the preflight finds to be missing, and what to do.
var lacks = map[string][2]string{
	"program": {"there is no program %s", "--perf-dir names the folder of nccl-tests' programs, as all nodes see it"},
	"needs": {"a library is missing: %s",
		"LD_LIBRARY_PATH has to name its folder on each node, or the programs are built anew"},
	"help": {"a program does not print nccl-tests' options: %s",
		"a wrapper has to hand its arguments to the program of nccl-tests"},
	"folder": {"the sweep's folder %s is not the one that tunefit writes to",
		"-o has to name a folder that all nodes see"},
	"library": {"there is no tuner library %s", "--plugin names it, in a folder that all nodes see"},
	"loads":   {"the tuner library cannot be loaded: %s", "--plugin names one that is built for these nodes"},
	"gpus": {"ranks see %s", "under Slurm salloc or sbatch has to ask for them: --gpus-per-node=GPUS; " +
		"CUDA_VISIBLE_DEVICES or a container may hide some, and --comm says how many ranks a node has"},
}

// preflight looks, before the first run, for what runs need on as many nodes as they need, by the same launcher. What
// is wrong with one is said before hours of measuring. It is not a run: it measures nothing, and the journal does not
// mention it.
func (s *Sweep) preflight(ctx context.Context) error {
	if s.preflightPassed {
		return nil
	}
	if !s.Allocated() {
		return errors.New("nothing was run: ranks of this sweep start in an allocation, and there is none")
	}
	mark := fmt.Sprintf("# %016x\n", rand.Uint64())
	argv, err := s.preflightCommand(strings.TrimSpace(mark))
	if err != nil {
		return err
	}
	nodes, gpus := s.needs()
	command, err := s.Launcher.Command(launch.Program{Argv: argv, Nodes: nodes,
		RanksPerNode: gpus / s.perProcess(gpus)})
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
	ended := s.process(command, log).run(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text = bytes.TrimPrefix(text, []byte(mark))
	answered, problems, most := readPreflight(string(text), gpus)
	s.moreGPUs = most > gpus
	if i := slices.IndexFunc(answered, launch.IsStray); i >= 0 {
		problems = append(problems, fmt.Sprintf("ranks were started on %s, where tunefit runs, and it is no node of "+
			"the allocation, job %s (--launch slurm uses its nodes)", answered[i], launch.Allocation()))
	}
	if text := s.unreached(ended, text, nodes, answered); text != "" {
		problems = append(problems, text)
	}
	if len(problems) > 0 {
		return fmt.Errorf("nothing was run: %s", strings.Join(problems, "; "))
	}
	s.preflightPassed = true
	s.takesCycles(string(text))
	s.Say("preflight: runs measure %s, where nothing that they need is missing; %s", cli.Few(answered, 8, ", "),
		s.processes())
	return nil
}

// preflightCommand is what each rank runs in the preflight. mark is the first line of its log.
func (s *Sweep) preflightCommand(mark string) (argv []string, err error) {
	folder, err := filepath.Abs(s.Dir)
	argv = []string{"/bin/sh", "-c", "node=" + s.Launcher.NodeName() + " " + preflightScript, "sh", s.Library, folder,
		mark}
	for _, k := range s.Keys {
		if p := s.program(k); !slices.Contains(argv, p) {
			argv = append(argv, p)
		}
	}
	return argv, err
}

// unreached says which nodes the launcher did not reach; empty: it reached all. The exit code alone does not tell: some
// launchers end well though a node failed.
func (s *Sweep) unreached(ended error, text []byte, want int, answered []string) string {
	code := s.Launcher.ExitCode(ended, text)
	if code == 0 && ended == nil && len(answered) == want {
		return ""
	}
	silent, who := missing(s.Launcher.NodeNames(want), answered), ""
	switch {
	case len(answered) == 0:
		who = "none answered"
	case len(answered) == want:
		who = "all answered"
	case len(silent) > 0:
		who = fmt.Sprintf("%s did not answer, %s did", cli.Few(silent, 8, ", "), cli.Few(answered, 8, ", "))
	default:
		who = fmt.Sprintf("%s answered: %s", wording.Plural(len(answered), "host name"), cli.Few(answered, 8, ", "))
	}
	how := fmt.Sprintf("it ended with exit code %d", code)
	if errors.Is(ended, errSilent) {
		how = fmt.Sprintf("it printed nothing more for %v and was ended", s.Silence)
	}
	if said := telling(text, silent); said != "" {
		how += ": " + said
	}
	return fmt.Sprintf("the launcher was to start a shell on each of %s: %s; %s "+
		"(see %s; --launch, --launch-args and --hosts say how nodes are reached)",
		wording.Plural(want, "node"), who, how, filepath.Join(s.Dir, preflightLog))
}

// missing returns the names that did not answer; nil: they are not known. Names may differ in their domains. Names of
// another kind, as addresses, tell nothing.
func missing(names, answered []string) []string {
	short := func(name string) string { name, _, _ = strings.Cut(name, "."); return name }
	rest := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(answered, func(a string) bool { return short(a) == short(name) })
	})
	if len(rest) != len(names)-len(answered) {
		return nil
	}
	return rest
}

// telling is the line of a launcher's that tells the most: the first about a node that did not answer, or its last.
func telling(text []byte, silent []string) string {
	text = preflightLine.ReplaceAll(text, nil)
	for line := range strings.Lines(string(text)) {
		if slices.ContainsFunc(silent, func(node string) bool { return strings.Contains(line, node) }) {
			return strings.TrimSpace(line)
		}
	}
	return lastLine(text)
}

// visibleGPUs returns those of all GPUs that CUDA shows: what CUDA_VISIBLE_DEVICES names by number or by the beginning
// of its UUID, up to the first that is not there.
func visibleGPUs(variable string, all []string) (shown []string) {
	if variable == "all" { // it is not set
		return all
	}
	for name := range strings.SplitSeq(variable, ",") {
		name = strings.TrimSpace(name)
		i := slices.IndexFunc(all, func(uuid string) bool { return name != "" && strings.HasPrefix(uuid, name) })
		if n, err := strconv.Atoi(name); err == nil {
			i = n
		}
		if i < 0 || i >= len(all) {
			break
		}
		shown = append(shown, all[i])
	}
	return shown
}

// takesCycles takes the option by which the programs repeat all sizes in one start: -N of nccl-tests, -s of rccl-tests.
// If one of them has none, or another one, a start measures one pass.
func (s *Sweep) takesCycles(text string) {
	for _, m := range preflightLine.FindAllStringSubmatch(text, -1) {
		switch {
		case m[2] != "cycles" || s.Single != "":
		case m[3] == "none" || s.cycles != "" && s.cycles != m[3]:
			s.Single = "nccl-tests cannot repeat its sizes (-N, from 2.13.10 of July 2024 on, can)"
		default:
			s.cycles = m[3]
		}
	}
}

// readPreflight reads what ranks have printed: the nodes on which one came to its end, and what is missing where, with
// what to do. Each node needs so many GPUs; most is how many one has, 0 where that is not known.
func readPreflight(text string, gpus int) (answered, problems []string, most int) {
	nodes, seen := []string{}, map[string]map[string]bool{}
	where, order := map[[2]string][]string{}, [][2]string{}
	lacking := func(node string, what [2]string) {
		if where[what] == nil {
			order = append(order, what)
		}
		if !slices.Contains(where[what], node) {
			where[what] = append(where[what], node)
		}
	}
	for _, m := range preflightLine.FindAllStringSubmatch(text, -1) {
		node, kind := m[1], m[2]
		if !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
		if kind == "cycles" {
			continue
		}
		if kind != "done" {
			lacking(node, [2]string{kind, m[3]})
			continue
		}
		if !slices.Contains(answered, node) {
			answered = append(answered, node)
		}
		if variable, all, tells := strings.Cut(strings.TrimPrefix(m[3], "["), "]"); tells {
			if seen[node] == nil {
				seen[node] = map[string]bool{}
			}
			for _, gpu := range visibleGPUs(variable, strings.Fields(all)) {
				seen[node][gpu] = true
			}
		}
	}
	slices.Sort(nodes)
	slices.Sort(answered)
	for _, node := range nodes {
		most = max(most, len(seen[node]))
		if n := len(seen[node]); seen[node] != nil && n < gpus {
			lacking(node, [2]string{"gpus", fmt.Sprintf("%s of the %d that they need", wording.Plural(n, "GPU"), gpus)})
		}
	}
	slices.SortStableFunc(order, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
	for i, what := range order {
		at, lack := where[what], lacks[what[0]]
		slices.Sort(at)
		text := fmt.Sprintf("on %s "+lack[0], cli.Few(at, 8, ", "), what[1])
		if i+1 == len(order) || order[i+1][0] != what[0] { // what to do is the same for all of a kind
			text += " (" + strings.ReplaceAll(lack[1], "GPUS", strconv.Itoa(gpus)) + ")"
		}
		problems = append(problems, text)
	}
	sound := slices.DeleteFunc(nodes, func(node string) bool {
		return slices.ContainsFunc(order, func(what [2]string) bool { return slices.Contains(where[what], node) })
	})
	if len(problems) > 0 && len(sound) > 0 {
		problems = append(problems, fmt.Sprintf("on %s nothing is missing "+
			"(--hosts, or -x of salloc and sbatch, leave nodes out)", cli.Few(sound, 8, ", ")))
	}
	return answered, problems, most
}
