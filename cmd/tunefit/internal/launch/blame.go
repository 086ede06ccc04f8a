package launch

import (
	"regexp"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/hostlist"
)

// What names a node that is lost or out of reach.
var lost = patterns(
	// Slurm
	`error: Node failure on (\S+)`,
	`error: Task launch for \S+ failed on node (\S+):`,
	`error: slurm_receive_msgs: \[(\S+)\] failed:`,
	// Open MPI 4 and 5
	`has lost communication with a remote daemon[^@]*?HNP daemon[^\n]*\n\s*Remote daemon[^\n]*? on node (\S+)`,
	// ssh, and pdsh, which names the host itself
	`ssh: connect to host (\S+) port`,
	`ssh: Could not resolve hostname ([^\s:]+)`,
	`(?m)^(?:\S+@)?([^\s@:]+): Permission denied \(`,
	`pdsh@\S+: ([^\s:]+): (?:ssh exited with exit code 255|connect|mcmd)`,
)

// What names a node whose GPU, or driver, failed. A node that only saw another one fail does not print these.
var broken = patterns(
	`(?m)(?:^|[\s>])([^\s:>]+): Test CUDA failure`,
	`(?m)(?:^|[\s>])([^\s:>\[]+):[0-9]+:[0-9]+ \[[0-9-]+\] [^\n]*NCCL WARN [^\n]*(?:Cuda failure|ECC|Xid)`,
)

// What names the node of the process that ended first. The others are ended because of it.
var ended = patterns(
	`(?:mpirun|prterun|prte) noticed that process rank [0-9]+ with PID\s+[0-9]+\s+on\s+node\s+(\S+)\s+exited\s+on\s+signal`,
	`srun: error: (\S+): tasks? [0-9,-]+: `,
)

// What NCCL says of a peer that went away, and who says so.
var (
	complains = regexp.MustCompile(`(?m)(?:^|[\s>])([^\s:>\[]+):[0-9]+:[0-9]+ \[[0-9-]+\] [^\n]*NCCL WARN [^\n]*\b(?:remote )?peer ([A-Za-z][A-Za-z0-9_.-]*)<[0-9]+>`)
)

func patterns(texts ...string) (all []*regexp.Regexp) {
	for _, text := range texts {
		all = append(all, regexp.MustCompile(text))
	}
	return all
}

// Blame returns the nodes that a failed run's output names as lost, broken or the first to fail, the best evidence counting
// alone. It returns none where nothing points at one node rather than at all: a program that fails everywhere is no node's fault.
func (l *Launcher) Blame(log []byte) []string {
	text := string(log)
	if nodes := named(text, lost); len(nodes) > 0 {
		return nodes
	}
	if nodes := named(text, broken); len(nodes) > 0 {
		return nodes
	}
	if nodes := silentPeers(text); len(nodes) > 0 {
		return nodes
	}
	return endedFirst(text)
}

// named returns the nodes in the order of their lines.
func named(text string, all []*regexp.Regexp) (nodes []string) {
	type found struct {
		at    int
		nodes []string
	}
	var places []found
	for _, p := range all {
		for _, m := range p.FindAllStringSubmatchIndex(text, -1) {
			places = append(places, found{m[0], hosts(text[m[2]:m[3]])})
		}
	}
	slices.SortStableFunc(places, func(a, b found) int { return a.at - b.at })
	for _, p := range places {
		for _, n := range p.nodes {
			if !slices.Contains(nodes, n) {
				nodes = append(nodes, n)
			}
		}
	}
	return nodes
}

// silentPeers returns the peers that went away and do not themselves complain of another: a job falls like dominoes, and the
// first stone says nothing.
func silentPeers(text string) (nodes []string) {
	complaints := complains.FindAllStringSubmatch(text, -1)
	for _, c := range complaints {
		peer := c[2]
		if !slices.Contains(nodes, peer) && !slices.ContainsFunc(complaints, func(o []string) bool { return sameHost(o[1], peer) }) {
			nodes = append(nodes, peer)
		}
	}
	return nodes
}

// sameHost compares names that may have a domain.
func sameHost(a, b string) bool {
	short := func(name string) string { name, _, _ = strings.Cut(name, "."); return name }
	return a == b || short(a) == short(b)
}

// endedFirst returns the node of the first process that ended, if that is one node.
func endedFirst(text string) []string {
	first := len(text)
	var node []string
	for _, p := range ended {
		if m := p.FindStringSubmatchIndex(text); m != nil && m[0] < first {
			first, node = m[0], hosts(text[m[2]:m[3]])
		}
	}
	if len(node) != 1 {
		return nil
	}
	return node
}

// hosts are those of a list, which a sentence may end behind.
func hosts(list string) []string { return hostlist.Expand(strings.TrimRight(list, ",.;:")) }
