package launch

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/hostlist"
)

// lost are messages that name a node which is lost or out of reach.
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

// broken are messages that name a node whose GPU or driver failed. A node that only saw another one fail does not print
// them.
var broken = patterns(
	`(?m)(?:^|[\s>])([^\s:>]+): Test CUDA failure`,
	`(?m)(?:^|[\s>])([^\s:>\[]+):[0-9]+:[0-9]+ \[[0-9-]+\] [^\n]*NCCL WARN [^\n]*(?:Cuda failure|ECC|Xid)`,
)

// signalled names the node of the process that a signal ended first. mpirun then ends the others.
var signalled = regexp.MustCompile(
	`(?:mpirun|prterun|prte) noticed that process rank [0-9]+ with PID\s+[0-9]+\s+on\s+node\s+(\S+)\s+` +
		`exited\s+on\s+signal`)

// complains is what NCCL logs of a peer that went away: the node that logs it, and the peer.
var complains = regexp.MustCompile(
	`(?m)(?:^|[\s>])([^\s:>\[]+):[0-9]+:[0-9]+ \[[0-9-]+\] [^\n]*NCCL WARN ` +
		`[^\n]*\b(?:remote )?peer ([A-Za-z][A-Za-z0-9_.-]*)<[0-9]+>`)

func patterns(texts ...string) (all []*regexp.Regexp) {
	for _, text := range texts {
		all = append(all, regexp.MustCompile(text))
	}
	return all
}

// Blame returns the nodes that a failed run's output names. If it names none, as of a run that hung, Blame asks Slurm
// which nodes of the job do not answer.
func (l *Launcher) Blame(log []byte) []string {
	if nodes := Named(log); len(nodes) > 0 {
		return nodes
	}
	return l.unresponsive()
}

// Named returns the nodes that a failed run's output names as lost, as broken, or as the first to fail. The first kind
// of evidence in this order decides. If a program fails everywhere, it is no node's fault, and Named returns none.
func Named(log []byte) (nodes []string) {
	text := string(log)
	for _, find := range []func() []string{
		func() []string { return named(text, lost) },
		func() []string { return named(text, broken) },
		func() []string { return silentPeers(text) },
		func() []string { return endedFirst(text) },
	} {
		if nodes = find(); len(nodes) > 0 {
			break
		}
	}
	return nodes
}

// unresponsive returns the nodes of the job that do not answer Slurm, or that are down.
func (l *Launcher) unresponsive() (nodes []string) {
	list := os.Getenv("SLURM_JOB_NODELIST")
	if l.job != nil {
		list = l.job.list
	}
	if l.kind != Slurm || list == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	states, _ := slurmSays(ctx, "sinfo", "--noheader", "--Node", "--nodes="+list, "--format=%N %T")
	for line := range strings.Lines(states) {
		name, state, _ := strings.Cut(strings.TrimSpace(line), " ")
		// There is a line for each partition of a node.
		if (strings.HasSuffix(state, "*") || strings.HasPrefix(state, "down")) && !slices.Contains(nodes, name) {
			nodes = append(nodes, name)
		}
	}
	return nodes
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

// silentPeers returns the peers that others lost and that do not complain themselves. Each rank that ends makes others
// complain, so the first to fail is the one that says nothing.
func silentPeers(text string) (nodes []string) {
	complaints := complains.FindAllStringSubmatch(text, -1)
	for _, c := range complaints {
		peer := c[2]
		known := slices.ContainsFunc(nodes, func(n string) bool { return sameHost(n, peer) })
		if !known && !slices.ContainsFunc(complaints, func(o []string) bool { return sameHost(o[1], peer) }) {
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

// endedFirst returns the node of the first rank that failed. If ranks of other nodes failed in the same way, it returns
// none: then the node is not the reason.
func endedFirst(text string) (nodes []string) {
	if m := signalled.FindStringSubmatch(text); m != nil {
		return m[1:]
	}
	first := ""
	for _, m := range firstOfSlurm.FindAllStringSubmatch(text, -1) {
		if first == "" {
			first = m[2]
		}
		if m[2] == first {
			nodes = append(nodes, hosts(m[1])...)
		}
	}
	if first == "Terminated" || slices.ContainsFunc(nodes, func(n string) bool { return n != nodes[0] }) {
		return nil
	}
	return nodes[:min(1, len(nodes))]
}

// hosts expands a list of hosts, which punctuation may follow.
func hosts(list string) []string { return hostlist.Expand(strings.TrimRight(list, ",.;:")) }
