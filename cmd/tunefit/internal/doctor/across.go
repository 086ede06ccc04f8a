package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// measured matches what differs between nodes that are alike: how long something took.
var measured = regexp.MustCompile(`\b[0-9.]+(?:ns|µs|ms|s)\b`)

// ofNode are the checks in which sound nodes may differ: how much room there is.
var ofNode = []string{"limits", "rendezvous"}

// Across makes one list of what the nodes found. It has a finding of all nodes once, and a finding of some with their
// names. It adds findings for missing answers, if there are fewer than nodes, and for checks in which nodes differ
// although each is sound. The verdict is one line: "4 nodes agree", or in what they differ.
func (a *Answers) Across(nodes int) (findings []Finding, verdict string) {
	slices.SortStableFunc(a.complete, func(x, y answer) int { return compareHosts(x.host, y.host) })
	var hosts []string
	type told struct {
		Finding
		hosts []string
	}
	var all []*told
	for _, n := range a.complete {
		if slices.Contains(hosts, n.host) {
			continue // a second process of a node
		}
		hosts = append(hosts, n.host)
		for _, f := range n.findings {
			same := func(t *told) bool {
				return t.Check == f.Check && t.Severity == f.Severity && t.Do == f.Do && t.Unknown == f.Unknown &&
					measured.ReplaceAllString(t.Found, "") == measured.ReplaceAllString(f.Found, "")
			}
			if i := slices.IndexFunc(all, same); i >= 0 {
				if !slices.Contains(all[i].hosts, n.host) {
					all[i].hosts = append(all[i].hosts, n.host)
				}
			} else {
				all = append(all, &told{f, []string{n.host}})
			}
		}
	}
	findings = a.missing(nodes, hosts)
	var differ []string
	for _, check := range examinations {
		var bad, good int // that some nodes found, and others did not
		for _, t := range all {
			if t.Check != check.name {
				continue
			}
			if len(t.hosts) < len(hosts) {
				t.Nodes = t.hosts
				if t.Severity >= isWarning {
					bad++
				} else {
					good++
				}
			}
			findings = append(findings, t.Finding)
		}
		if bad+good == 0 || bad == 0 && slices.Contains(ofNode, check.name) {
			continue
		}
		differ = append(differ, check.name)
		if good > 1 || bad == 0 {
			f := warned("give all nodes the same", "the nodes differ")
			switch check.name {
			case "files":
				f = failed("put the files where all nodes see the same",
					"the nodes differ, and ranks with different versions refuse to start together")
			case "cpu":
				f = warned("run the job on nodes of one vendor, or measure for the policy on such a mixture",
					"the nodes' CPUs differ, and NCCL's estimates and channels depend on who made them: its choice "+
						"is not that of nodes alike. Before NCCL 2.22.3 ranks may choose differently and hang")
			}
			f.Check = check.name
			findings = append(findings, f)
		}
	}
	n := wording.Plural(len(hosts), "node")
	switch {
	case len(differ) > 0:
		return findings, fmt.Sprintf("%s differ in %s", n, strings.Join(differ, ", "))
	case len(hosts) == 0:
		return findings, "no node answered"
	case len(hosts) == 1:
		return findings, "1 node answered"
	}
	return findings, n + " agree"
}

// missing says which nodes have not answered.
func (a *Answers) missing(nodes int, hosts []string) (found []Finding) {
	add := func(f Finding) {
		f.Check = "launch"
		found = append(found, f)
	}
	if len(hosts) < nodes {
		do := "look at what the launcher says, and whether this tunefit is at the same path on all nodes"
		text := fmt.Sprintf("%d of %d nodes answered", len(hosts), nodes)
		if len(hosts) > 0 {
			text += ": " + hostList(hosts)
		}
		if len(a.complete) > len(hosts) {
			text += fmt.Sprintf(", by %d processes", len(a.complete))
			do = "start one process a node, as with --map-by ppr:1:node"
		}
		add(failed(do, "%s", text))
	}
	for process := range a.begun {
		host, _, _ := strings.Cut(process, " ")
		add(failed("start the doctor once more", "the launcher damaged the answer of %s", host))
	}
	return found
}

var numbered = regexp.MustCompile(`^(.*?)([0-9]+)$`)

// splitHost splits a host's name into what comes before its last number, and the number's digits, which may be none.
func splitHost(name string) (prefix, digits string) {
	if m := numbered.FindStringSubmatch(name); m != nil {
		return m[1], m[2]
	}
	return name, ""
}

// compareHosts puts node2 before node10.
func compareHosts(a, b string) int {
	prefixA, digitsA := splitHost(a)
	prefixB, digitsB := splitHost(b)
	if prefixA == prefixB && len(digitsA) != len(digitsB) {
		return len(digitsA) - len(digitsB)
	}
	return strings.Compare(a, b)
}

// hostList writes sorted names as Slurm does: node[1-3,7].
func hostList(hosts []string) string {
	var parts []string
	for i := 0; i < len(hosts); {
		prefix, digits := splitHost(hosts[i])
		if digits == "" {
			parts = append(parts, prefix)
			i++
			continue
		}
		var ranges []string
		for ; i < len(hosts); i++ {
			p, first := splitHost(hosts[i])
			if p != prefix || first == "" {
				break
			}
			last := first
			for i+1 < len(hosts) && hosts[i+1] == prefix+after(last) {
				last = after(last)
				i++
			}
			if first != last {
				first += "-" + last
			}
			ranges = append(ranges, first)
		}
		list := strings.Join(ranges, ",")
		if strings.ContainsAny(list, ",-") {
			list = "[" + list + "]"
		}
		parts = append(parts, prefix+list)
	}
	return strings.Join(parts, ", ")
}

// after is the number that follows, with as many digits.
func after(digits string) string {
	n, _ := strconv.Atoi(digits)
	return fmt.Sprintf("%0*d", len(digits), n+1)
}
