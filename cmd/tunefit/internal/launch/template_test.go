package launch

import (
	"strings"
	"testing"
)

// What the fields stand for reaches the program through as many shells as the template's quotes say.
func TestTemplate(t *testing.T) {
	p := Program{Argv: []string{"sh", "-c", printsAwkward}, Env: awkward, Nodes: 2, RanksPerNode: 4}
	hosts := []string{"node1", "node2", "node3"}
	for with, before := range map[string]string{
		`echo {hosts} {nodes} {ranks} {ranks_per_node}; {command}`:                        "node1,node2 2 8 4\n",
		`env {env} sh -c '{command}' # {ranks}`:                                           "",
		`{env} sh -c "{command}" # {ranks}`:                                               "",
		`set -- {hosts}; sh -c "echo ${1} \"it's\" \$0; "'exec {command}' its # $x`:       "node1,node2 it's its\n",
		`for host in {hosts}; do sh -c "sh -c \"echo \\\$0\" \"$host\""; {command}; done`: "node1,node2\n",
	} {
		out, err := launched(t, mustNew(t, Options{With: with, Hosts: hosts}), p)
		if want := before + awkwardLine + "\n"; out != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", with, out, err, want)
		}
	}
}

// The commands of the help are what a person would have typed.
func TestTemplateOfHelp(t *testing.T) {
	p := Program{Argv: []string{"all_reduce_perf", "-b", "8"}, Env: map[string]string{"NCCL_ALGO": "ring"}, Nodes: 2,
		RanksPerNode: 8}
	for with, want := range map[string]string{
		"kubectl exec job-launcher -- mpirun -np {ranks} -N {ranks_per_node} {command}": "kubectl exec job-launcher " +
			"-- mpirun -np 16 -N 8 env NCCL_ALGO=ring all_reduce_perf -b 8",
		"pdsh -R exec -w {hosts} ssh %h '{command}'": "pdsh -R exec -w node1,node2 ssh %h 'env NCCL_ALGO=ring " +
			"all_reduce_perf -b 8'",
		"x -e {env} -- {command} -n {ranks}": "x -e NCCL_ALGO=ring -- all_reduce_perf -b 8 -n 16",
	} {
		var hosts []string
		if strings.Contains(with, "{hosts}") {
			hosts = []string{"node1", "node2"}
		}
		if got := mustNew(t, Options{With: with, Hosts: hosts}).fill(p); got != want {
			t.Errorf("%s: %s, want %s", with, got, want)
		}
	}
}
