package policy

import (
	"strings"
	"testing"
)

// Each row that lets sums vary is named, with the field, and no other row is.
func TestCheckSums(t *testing.T) {
	const header = "collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,pipe_ops,reg_buff," +
		"ranks_per_node,min_bytes_per_rank,max_bytes_per_rank,nccl,comm_name,chunk_bytes,when\n"
	for _, c := range []struct{ name, rows, want string }{
		{"one row", "allreduce,,,tree,simple,1", ""},
		{"each collective has its own", "allreduce,,,tree,simple,1\nreducescatter,,,ring,simple,4\nreduce,,,ring,ll,2", ""},
		{"collectives that do not add", "allgather,0,32K,!tree,any,\nbroadcast,,,default\nalltoall,0,1K,ring,ll,", ""},
		{"written as limits", "allreduce,0,inf,ring,simple,8,-1,*,any,-1,-1,0,inf", ""},
		{"other nodes", "allreduce,,,tree,simple,1,2\nallreduce,,,ring,simple,8,4", ""},
		{"other ranks per node, by two numbers", "allreduce,,,tree,simple,1,2,16\nallreduce,,,ring,simple,8,,,,,4", ""},
		{"other releases", "allreduce,,,tree,simple,1,,,,,,,,2.28\nallreduce,,,ring,simple,8,,,,,,,,>=2.30", ""},
		{"other conditions", "allreduce,,,tree,simple,1,,,,,,,,,,,topo.sm >= 90\n" +
			"allreduce,,,ring,simple,8,,,,,,,,,,,topo.sm < 90", ""},
		{"the same twice", "allreduce,,,tree,simple,1\nany,,,tree,simple,1", ""},
		{"channels that cannot be set", "allreduce,,,nvls,simple,,2\nreducescatter,,,collnet_direct,simple,", ""},
		{"nvls over 2 nodes, by two numbers", "allreduce,,,nvls,simple,,,16,,,8", ""},

		{"sizes", "allreduce,,32K,tree,simple,1\nreduce,1K,,ring,ll,1",
			"2:3: the row is for 0 - 32KiB only, so that sums depend on the size of the call (needed: no limit)\n" +
				"3:2: the row is for 1KiB - inf only, so that sums depend on the size of the call (needed: no limit)"},
		{"sizes per rank", "any,,,ring,simple,1,,,,,,4K,8K",
			"2:13: the row is for 4KiB - 8KiB per rank only, so that sums depend on the size of the call (needed: no limit)"},
		{"numbers of calls", "allreduce,,,tree,simple,1,,,2,1",
			"2:9: pipe_ops 2: it differs between calls of one communicator (needed: any)\n" +
				"2:10: reg_buff 1: it differs between calls of one communicator (needed: any)"},
		{"a condition of the call", "allreduce,,,tree,simple,1,,,,,,,,,,,ranks > 4 && bytes > 4*KiB",
			"2:17: the condition depends on the call (needed: none of coll, bytes, bytes_per_rank, pipe_ops)"},
		{"names", "allreduce,,,tree,simple,1,,,,,,,,,dp*\nreduce,,,ring,simple,1,,,,,,,,,,,comm_name == 'tp'",
			"2:15: the row asks for the communicator's name, which ranks only know where they agree on edits " +
				"(needed: nodes, ranks or ranks_per_node)\n" +
				"3:17: the row asks for the communicator's name, which ranks only know where they agree on edits " +
				"(needed: nodes, ranks or ranks_per_node)"},
		{"left to NCCL", "reducescatter,,,default\nallreduce,,,,,4",
			"2:4: the row leaves algorithm and protocol to NCCL, which chooses by size (needed: one of each)\n" +
				"3:4: the row leaves algorithm and protocol to NCCL, which chooses by size (needed: one of each)"},
		{"the cheapest of several", "allreduce,,,!ring,simple,1\nreduce,,,ring,,1\nreducescatter,,,,!ll,1",
			"2:4: algorithm !ring: NCCL chooses one by size (needed: one)\n" +
				"3:5: protocol any: NCCL chooses one by size (needed: one)\n" +
				"4:4: algorithm any: NCCL chooses one by size (needed: one)\n" +
				"4:5: protocol !ll: NCCL chooses one by size (needed: one)"},
		{"channels", "allreduce,,,tree,simple,\nreducescatter,,,nvls,simple,,1\nreduce,,,ring,ll,0",
			"2:6: the row leaves channels to NCCL, which chooses by size (needed: 1 to 64)\n" +
				"3:6: the row leaves channels to NCCL, which chooses by size (needed: 1 to 64)\n" +
				"4:6: the row leaves channels to NCCL, which chooses by size (needed: 1 to 64)"},
		{"nvls over any number of nodes", "allreduce,,,nvls,simple,",
			"2:6: the row leaves channels to NCCL, which chooses by size (needed: 1 to 64)"},
		{"two for one communicator", "allreduce,,,tree,simple,1,2\nallreduce,,,ring,simple,1,,16\nany,,,ring,simple,1,4",
			"3: the row asks for ring/simple 1 ch where line 2 asks for tree/simple 1 ch, and which one decides depends on " +
				"what is available in NCCL (needed: the same, or other communicators)"},
		{"a condition against none", "allreduce,,,tree,simple,1,,,,,,,,,,,topo.nvswitch\nallreduce,,,tree,simple,2",
			"3: the row asks for tree/simple 2 ch where line 2 asks for tree/simple 1 ch, and which one decides depends on " +
				"what is available in NCCL (needed: the same, or other communicators)"},
		{"the same condition", "allreduce,,,tree,simple,1,,,,,,,,,,,topo.nvswitch\n" +
			"any,,,tree,simple,1,,,,,,,,,,64K,topo.nvswitch",
			"3: the row asks for tree/simple 1 ch, chunks of 64KiB where line 2 asks for tree/simple 1 ch, and which one " +
				"decides depends on what is available in NCCL (needed: the same, or other communicators)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const neededFields = 8
			text := header
			for row := range strings.SplitSeq(c.rows, "\n") {
				text += row + strings.Repeat(",", max(0, neededFields-1-strings.Count(row, ","))) + "\n"
			}
			got := rowsOf(t, text).CheckSums().Error()
			if got = strings.ReplaceAll(got, "p.csv:", ""); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
	// Without a header the columns are NCCL's; a column that the file lacks is the whole row.
	for text, at := range map[string]string{
		"allreduce,0,4096,ring,simple,8,-1,-1\n":                                   "p.csv:1:3: ",
		"collective,algorithm,protocol\nreduce,ring,ll\n":                          "p.csv:2: ",
		"collective,algorithm,protocol,channels,max_bytes\nreduce,ring,any,1,4K\n": "p.csv:2:3: ", // by columns
	} {
		if got := rowsOf(t, text).CheckSums().Error(); !strings.HasPrefix(got, at) {
			t.Error(got)
		}
	}
}
