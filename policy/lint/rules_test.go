package lint

import (
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

const header = "collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks_per_node,chunk_bytes,comment\n"

// machine has 16 channels for ring and tree, 8 for NVLS, and neither CollNet nor trees.
func machine(comm nccl.Comm) *tuning.Tuning {
	if comm.Nodes > 4 {
		return nil
	}
	t := &tuning.Tuning{Facts: tuning.Facts{Comm: comm, NVLS: true}, NChannels: 16, NVLSChannels: 8}
	for coll := range t.Bandwidths {
		t.Bandwidths[coll][nccl.AlgoRing] = [3]float32{1, 1, 1}
		t.Bandwidths[coll][nccl.AlgoNVLS] = [3]float32{0, 0, 1}
	}
	return t
}

// Every rule about rows: files that it finds something in, and others that look alike and are none
// of its business.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		rule  string
		found map[string]string // rows: what is said, with its place
		not   []string
	}{
		{Invalid, map[string]string{
			"allreduce,0,inf,rign,simple,-1,-1,-1,,\n": `p.csv:2:4: error: unknown algorithm "rign" (did you mean "ring"`,
		}, []string{"allreduce,0,inf,ring,simple,-1,-1,-1,,\n"}},
		{"no-rows", map[string]string{"": "p.csv: warning: the policy has no rows"}, []string{"allreduce,,,ring,,,,,,\n"}},
		{"simulated", map[string]string{
			"# tunefit:simulated 2.30.7\nallreduce,,,ring,,,,,,\n": "p.csv: warning: its times are simulated",
		}, []string{"# tunefit:measured 2.30.7\nallreduce,,,ring,,,,,,\n"}},
		{"rccl-own-tuner", map[string]string{
			"# tunefit:measured RCCL 2.27.7\nallreduce,0,1024,ring,ll,8,1,8,,\n": "p.csv:3: note: where RCCL cannot load the " +
				"library, its own tuner reads this file and takes the row otherwise",
		}, []string{"# tunefit:measured 2.27.7\nallreduce,0,1024,ring,ll,8,1,8,,\n"}},
		{"matches-nothing", map[string]string{
			"allreduce,,,ring,,,1,1,,\n": "p.csv:2: warning: NCCL asks nothing about a communicator of 1 rank",
		}, []string{"allreduce,,,ring,,,1,2,,\n", "allreduce,,,ring,,,1,,,\n"}},
		{"shadowed", map[string]string{
			"allreduce,0,1M,ring,,,,,,\nallreduce,4K,64K,ring,ll,8,2,8,,\n": "p.csv:3: warning: the row is never " +
				"reached: line 2 matches all",
			"any,,,default,,,,,,\nbroadcast,,,ring,,,,,,\n": "p.csv:3: warning: the row is never reached: line 2 " +
				"matches all",
			"allreduce,0,1K,ring,,,2,8,,a\nallgather,,,ring,,,,,,\n" +
				"AllReduce,0,1024,RING,-1,,2,8,,b\n": "p.csv:4: warning: the row is never reached: line 2",
			"any,,,nvls,,,,,,\nbroadcast,,,nvls,simple,,,,,\n": "p.csv:3: warning: the row is never reached: line 2",
		}, []string{
			"allreduce,0,1M,nvls,simple,,,,,\nallreduce,4K,64K,ring,ll,8,2,8,,\n", // NVLS may not be available
			"allreduce,0,1M,ring,ll,,,,,\nallreduce,4K,64K,ring,,8,2,8,,\n",
			// it takes both
			"allreduce,0,4K,ring,,,,8,,\nallreduce,4097,1M,ring,,,,8,,\nallreduce,1K,1M,ring,,,2,8,,\n",
			"allreduce,,,ring,,,2,,,\nallreduce,,,ring,,,,,,\n",
			"allreduce,,,!ring,,,,,,\nallreduce,,,default,,,,,,\n",
		}},
		{"overlap", map[string]string{
			"allreduce,0,64K,tree,ll,,,,,\nallreduce,64K,1M,ring,,,,,,\n": "p.csv:3: warning: line 2 comes first " +
				"and matches 64KiB as well",
			"allreduce,0,64K,tree,ll,,,,,\nallreduce,1K,1M,tree,ll,8,2,,,\n": "p.csv:3: warning: line 2 comes first " +
				"and matches 1KiB - 64KiB as well",
		}, []string{
			"allreduce,0,64K,tree,ll,,,,,\nallreduce,65537,1M,ring,,,,,,\n",
			"allreduce,1K,64K,tree,ll,,,,,\nallreduce,,,ring,,,,,,\n",       // an exception
			"allreduce,0,64K,tree,ll,,,,,\nallreduce,64K,1M,tree,ll,,,,,\n", // alike
			"allreduce,0,64K,tree,ll,,2,8,,\nallreduce,64K,1M,ring,,,,,,\n", // an exception for two nodes
			"allreduce,0,64K,tree,ll,,2,8,,\nallreduce,64K,1M,ring,,,3,8,,\n",
		}},
		{"wide-first", map[string]string{
			"allreduce,0,1G,ring,simple,,,,,\nallreduce,0,32K,tree,ll,,,,,\n": "p.csv:3: note: line 2 comes first and " +
				"decides 0 - 32KiB wherever ring/simple is available",
			// fewer communicators, and the sizes are covered in part
			"allreduce,0,32K,ring,ll,,,,,\nallreduce,0,1G,ring,simple,,2,8,,\n": "p.csv:3: note: line 2 comes first and " +
				"decides 0 - 32KiB wherever ring/ll is available",
			"any,,,ring,,,,,,\nallreduce,1M,inf,nvls,simple,,,8,,\n": "p.csv:3: note: line 2 comes first and decides " +
				"1MiB - inf wherever ring is available",
			"allreduce,0,1M,,,8,,,,\nallreduce,,,ring,simple,,2,8,,\n": "p.csv:3: note: line 2 comes first and " +
				"decides 0 - 1MiB: put",
			// of two earlier rows the one that takes more
			"allreduce,0,4K,tree,ll,,,,,\nallreduce,0,1M,ring,simple,,,,,\nallreduce,0,32K,nvls,simple,,,8,,\n": "p.csv:4: " +
				"note: line 3 comes first and decides 0 - 32KiB",
		}, []string{
			"allreduce,0,32K,tree,ll,,,,,\nallreduce,0,1G,ring,simple,,,,,\n",
			"allreduce,0,1G,nvls,simple,,,,,\nallreduce,0,1G,ring,simple,,,,,\n", // a fallback
			"allreduce,0,1G,ring,simple,,,,,\nallgather,0,32K,ring,ll,,,,,\n",
			"allreduce,0,1G,ring,simple,,2,,,\nallreduce,0,32K,tree,ll,,3,,,\n",
			"allreduce,0,1G,ring,simple,,,8,,\nallreduce,0,32K,tree,ll,,2,,,\n", // neither is narrower
			"allreduce,0,32K,ring,simple,,,,,\nallreduce,32769,1G,tree,ll,,2,8,,\n",
			"allreduce,0,64K,tree,ll,,,,,\nallreduce,1K,1M,tree,ll,8,2,8,,\n",        // an overlap
			"allreduce,0,1G,nvls_tree,simple,,,,,\nallreduce,0,32K,ring,ll,,1,8,,\n", // none on one node
			"allreduce,0,1G,tree,simple,,,,,\nallreduce,0,32K,ring,ll,,2,8,,\n",      // not on this machine
			"allreduce,0,1G,ring,simple,,,,,\nallreduce,0,32K,ring,simple,8,,,,\n",   // shadowed
			"allreduce,0,1G,ring,simple,,,,,\nallreduce,0,32K,ring,,,,,,wide; tunefit:ignore wide-first\n",
		}},
		{"not-measured", map[string]string{
			"# tunefit:nodes 2 -- not measured on 4\n" +
				"allreduce,1K,1M,ring,,,4,8,,\nallreduce,,,tree,,,3,8,,\n": "p.csv:3: note: carried over from 2 nodes",
		}, []string{
			"# 1KiB - 1MiB: 20 % faster than NCCL's default, 3 sizes measured\nallreduce,1K,1M,ring,,,4,8,,\n",
			"# not measured on 4 nodes\nallreduce,1K,1M,ring,,,4,8,,\n",
		}},
		{"gap", map[string]string{
			"allreduce,64K,1M,ring,,,2,8,,\nallreduce,0,32K,tree,,,2,8,,\n": "p.csv:2: warning: allreduce with 2 " +
				"nodes, 16 ranks: no row matches 32769 - 65535, between lines 3 and 2",
			"allreduce,0,65535,tree,,,2,8,,\nallreduce,65537,1M,ring,,,2,8,,\n": "p.csv:3: warning: allreduce with 2 " +
				"nodes, 16 ranks: no row matches 64KiB, between lines 2 and 3",
			"allreduce,0,32K,tree,,,2,8,,\nallreduce,65538,,ring,,,,8,,\n": "p.csv:3: warning: allreduce with 2 " +
				"nodes, 16 ranks: no row matches 32769 - 65537",
			"allreduce,0,32K,tree,,,2,8,,\nallreduce,65539,,ring,,,,8,,\n": "p.csv:3: note: allreduce with 2 nodes, " +
				"16 ranks: no row matches 32769 - 65538",
			"allreduce,0,32K,tree,,,2,8,,\nallreduce,1M,,ring,,,,,,\n": "p.csv:3: note: allreduce with 2 nodes, 16 " +
				"ranks: no row matches 32769 - 1048575",
		}, []string{
			"allreduce,0,65535,tree,,,2,8,,\nallreduce,64K,1M,ring,,,2,8,,\n",
			"allreduce,0,32K,tree,,,2,8,,\nallreduce,64K,1M,ring,,,2,8,,\nallreduce,,,default,,,,8,,\n",
			"allreduce,0,32K,tree,,,2,8,,\nallreduce,64K,1M,ring,,,3,8,,\n",
			"allreduce,0,32K,tree,,,2,8,,\nallgather,64K,1M,ring,,,2,8,,\n",
			"allreduce,4K,8K,tree,,,2,8,,\nallreduce,0,1M,ring,,,2,8,,\nallreduce,1048577,2M,ring,ll,,2,8,,\n",
		}},
		{"never-offered", map[string]string{
			"broadcast,,,tree,,,,,,\n": "p.csv:2:4: warning: tree is never available in NCCL for broadcast (it " +
				"has ring)",
			"allreduce,,,nvls,ll,,,,,\n": "p.csv:2:4: warning: nvls/ll is never available in NCCL for allreduce",
			"allgather,,,pat,simple,,1,8,,\n": "p.csv:2:4: warning: pat/simple is never available in NCCL for allgather " +
				"with 1 node, 8 ranks",
			"allreduce,,,pat,,,,,,\n":         "pat is never available in NCCL for allreduce",
			"allreduce,,,nvls_tree,,,1,8,,\n": "nvls_tree is never available in NCCL for allreduce with 1 node, 8 ranks",
			"allreduce,,,collnet_chain,,,,16,,\n": "collnet_chain is never available in NCCL for allreduce with 16 ranks " +
				"per node",
			"allgather,,,nvls,,,1,36,,\n": "nvls is never available in NCCL for allgather with 1 node, 36 ranks",
			"reduce,,,!ring,,,,,,\n":      "tree, collnet_direct",
		}, []string{
			"allreduce,,,tree,,,,,,\n", "allreduce,,,nvls,simple,,,,,\n", "allgather,,,pat,simple,,,1,,\n",
			"allgather,,,pat,simple,,4,,,\n",
			"allreduce,,,nvls_tree,,,2,8,,\n", "allreduce,,,collnet_chain,,,,8,,\n", "allreduce,,,nvls,,,1,36,,\n",
			"any,,,tree,,,,,,\n", "broadcast,,,default,,,,,,\n",
		}},
		{"not-on-this-machine", map[string]string{
			"allreduce,,,tree,,,2,8,,\n": "p.csv:2:4: warning: tree is not available on this machine for allreduce " +
				"with 2 nodes, 16 ranks (it has ring",
		}, []string{"allreduce,,,ring,,,2,8,,\n", "allreduce,,,tree,,,9,8,,\n", "allreduce,,,tree,,,,8,,\n"}},
		{"never-asked", map[string]string{
			"alltoall,,,ring,,,,,,\n": "p.csv:2:1: note: NCCL asks no tuner about alltoall",
		}, []string{"reduce,,,ring,,,,,,\n"}},
		{"4gib-bound", map[string]string{
			"allreduce,1M,4294967295,ring,,,2,8,,\n": "p.csv:2:3: warning: max_bytes " +
				"4294967295 is where the row ends; was inf meant?",
			"allreduce,1M,4G,ring,,,2,8,,\n": "p.csv:2:3: warning: max_bytes 4G",
			"allreduce,1M,2147483647,ring,,,2,8,,\nallreduce,4G,inf,tree,,,3,8,,\n": "p.csv:2:3: warning: max_bytes " +
				"2147483647",
			"allreduce,1M,4294967295,ring,,,2,8,,\nallreduce,,,default,,,,,,\n": "p.csv:2:3: warning: max_bytes " +
				"4294967295",
		}, []string{
			"allreduce,1M,4294967295,ring,,,2,8,,\nallreduce,4G,inf,tree,,,2,8,,\n",
			"allreduce,1M,4294967295,ring,,,2,8,,\nallreduce,8G,inf,tree,,,,,,\n",
			"allreduce,1M,2G,ring,,,2,8,,\n", "allreduce,1M,8G,ring,,,2,8,,\n",
			"allreduce,1M,4294967290,ring,,,2,8,,\n",
		}},
		{"channels-above-64", map[string]string{
			"allreduce,,,ring,,96,,,,\n": "p.csv:2:6: warning: channels 96 is read as 64",
		}, []string{"allreduce,,,ring,,64,,,,\n", "alltoall,,,ring,,96,,,,\n"}},
		{"channels-above-machine", map[string]string{
			"allreduce,,,ring,,17,2,8,,\n": "p.csv:2:6: warning: channels 17, but with 2 nodes, 16 ranks NCCL has 16 " +
				"for ring",
			"allreduce,,,nvls,,9,1,8,,\n": "p.csv:2:6: warning: channels 9, but with 1 node, 8 ranks NCCL has 8 for " +
				"nvls/simple",
		}, []string{"allreduce,,,ring,,16,2,8,,\n", "allreduce,,,,,9,1,8,,\n", "allreduce,,,ring,,17,9,8,,\n",
			"allreduce,,,ring,,17,,8,,\n"}},
		{"channels-left-alone", map[string]string{
			"allreduce,,,collnet_direct,simple,8,9,8,,\n": "p.csv:2:6: warning: channels 8 has no effect with " +
				"collnet_direct/simple over 9 nodes, 72 ranks",
			"allreduce,,,nvls,simple,8,9,8,,\n": "p.csv:2:6: warning: channels 8 has no effect with nvls/simple",
		}, []string{"allreduce,,,nvls,simple,8,1,8,,\n", "allreduce,,,nvls,simple,8,,8,,\n",
			"allreduce,,,nvls_tree,simple,8,4,8,,\n", "allreduce,,,,simple,8,4,8,,\n",
			"allreduce,,,nvls,simple,,4,8,,\n"}},
		{"channels-unchecked", map[string]string{
			"allgather,,,ring,simple,8,,8,,\n": "p.csv:2:6: note: NCCL 2.29.2 to 2.30.7 may use an allgather's " +
				"channel count unchecked",
			"any,,,,,8,,8,,\n": "p.csv:2:6: note: NCCL 2.29.2",
		}, []string{"allreduce,,,ring,,8,,8,,\n", "allgather,,,ring,,,,8,,\n", "any,,,tree,,8,,8,,\n",
			"allgather,,,nvls,simple,8,9,8,,\n"}},
		{"chunk-below-grain", map[string]string{
			"allreduce,,,ring,simple,,,,511,\n": "p.csv:2:9: warning: chunk_bytes 511 is raised to simple's grain of " +
				"512 bytes",
			"allreduce,,,ring,,,,,1K,\n": "p.csv:2:9: warning: chunk_bytes 1KiB is raised to ll128's grain of " +
				"1920 bytes",
		}, []string{"allreduce,,,ring,simple,,,,512,\n", "allreduce,,,ring,ll,,,,16,\n", "allreduce,,,nvls,,,,,1K,\n"}},
		{"bad-ignore", map[string]string{
			"# tunefit:ignore gop\nallreduce,,,ring,,,,,,\n": `p.csv:2: warning: no rule is called "gop" (did you mean "gap"`,
			"allreduce,,,ring,,,,,,\n# tunefit:ignore gap\n": "p.csv:3: warning: no row follows",
			"# tunefit:measurd 2.30.7\nallreduce,,,ring,,,,,,\n": `p.csv:2: warning: no remark is called "measurd" (did you ` +
				`mean "measured"`,
		}, []string{
			"# tunefit:ignore channels-above-64\nallreduce,,,ring,,96,,,,\n",
			"allreduce,,,ring,,96,,,,so measured; tunefit:ignore channels-above-64 -- RCCL\n",
		}},
	} {
		for rows, says := range c.found {
			found := check1(rows, c.rule)
			if len(found) != 1 || !strings.HasPrefix(found[0].String(), says) &&
				!strings.Contains(found[0].String(), says) {
				t.Errorf("%s in\n%sfound %v, want %q", c.rule, rows, found, says)
			}
		}
		for _, rows := range c.not {
			if found := check1(rows, c.rule); len(found) > 0 {
				t.Errorf("%s in\n%sfound %v", c.rule, rows, found)
			}
		}
	}
}

func check1(rows, rule string) []Diagnostic {
	return slices.DeleteFunc(Check("p.csv", []byte(header+rows), Options{Machine: machine}), func(f Diagnostic) bool {
		return f.Rule != rule
	})
}

// What is said of a value at its bound, and next to it.
func TestValuesAtTheirBound(t *testing.T) {
	for _, c := range []struct{ column, value, rules string }{
		{"pipe_ops", "-1", ""}, {"pipe_ops", "0", ""}, {"pipe_ops", "-2", Invalid},
		{"reg_buff", "-1", ""}, {"reg_buff", "0", "no-effect-in-release reg-buff"}, {"reg_buff", "-2", Invalid},
		{"nodes", "0", Invalid}, {"nodes", "1", ""}, {"nodes", "1073741824", ""}, {"nodes", "1073741825", Invalid},
		{"ranks", "0", Invalid}, {"ranks", "1", "matches-nothing"}, {"ranks", "2", ""},
		{"ranks_per_node", "0", Invalid}, {"ranks_per_node", "1", ""},
		{"channels", "0", ""}, {"channels", "64", ""}, {"channels", "65", "channels-above-64"},
		{"chunk_bytes", "0", Invalid}, {"chunk_bytes", "1", "chunk-below-grain no-effect-in-release"},
		{"chunk_bytes", "511", "chunk-below-grain no-effect-in-release"}, {"chunk_bytes", "512", "no-effect-in-release"},
		{"max_bytes", "0", ""}, {"max_bytes", "2147483646", ""}, {"max_bytes", "2147483647", "4gib-bound"},
		{"max_bytes", "2147483648", ""}, {"max_bytes", "4294967293", ""}, {"max_bytes", "4294967294", "4gib-bound"},
		{"max_bytes", "4294967296", "4gib-bound"}, {"max_bytes", "4294967297", ""},
		{"max_bytes_per_rank", "2147483647", "4gib-bound"}, {"max_bytes_per_rank", "4294967297", ""},
	} {
		text := "collective,algorithm,protocol," + c.column + "\nallreduce,ring,simple," + c.value + "\n"
		var found []string
		for _, f := range Check("p.csv", []byte(text), Options{NCCL: 22304}) {
			found = append(found, f.Rule)
		}
		slices.Sort(found)
		if got := strings.Join(found, " "); got != c.rules {
			t.Errorf("%s %s: %q, want %q", c.column, c.value, got, c.rules)
		}
	}
}

// Rules that need columns which most files do not have.
func TestRulesOfOtherColumns(t *testing.T) {
	for _, c := range []struct{ text, rule, says string }{
		{"collective,algorithm,reg_buff\nallreduce,ring,1\n", "reg-buff", "p.csv:2:3: warning: reg_buff 1: each rank"},
		{"collective,algorithm,reg_buff\nallreduce,ring,0\n", "reg-buff", "p.csv:2:3: warning: reg_buff 0: each rank"},
		{"collective,algorithm,reg_buff\nallreduce,ring,-1\n", "reg-buff", ""},
		{"collective,algorithm,max_bytes,min_bytes_per_rank\nallreduce,ring,1K,1K\n", "matches-nothing",
			"p.csv:2: warning: no number of bytes"},
		{"collective,algorithm,max_bytes,min_bytes_per_rank\nallreduce,ring,2K,1K\n", "matches-nothing", ""},
		{"collective,algorithm,max_bytes,min_bytes_per_rank,ranks\nallreduce,ring,2K,1K,3\n", "matches-nothing",
			"p.csv:2: warning: no number of bytes"},
		{"collective,algorithm,max_bytes_per_rank\nallreduce,ring,4294967295\n", "4gib-bound",
			"p.csv:2:3: warning: max_bytes_per_rank 4294967295"},
		{"collective,algorithm,min_bytes,max_bytes\nallreduce,ring,,4294967295\nallreduce,tree,4294967295,\n", "4gib-bound",
			""},
		{"collective,algorithm,min_bytes,max_bytes\nallreduce,ring,,4294967295\nallreduce,tree,4294967294,\n", "4gib-bound",
			"p.csv:2:4: warning: max_bytes 4294967295"},
		{"collective,algorithm,min_bytes,max_bytes,comm_name\nallreduce,ring,,4294967295,dp*\nallreduce,tree,4G,,dp\n",
			"4gib-bound", ""},
		{"collective,algorithm,min_bytes,max_bytes,comm_name\nallreduce,ring,,4294967295,dp\nallreduce,tree,4G,,dp*\n",
			"4gib-bound", ""},
		{"collective,algorithm,min_bytes,max_bytes,comm_name\nallreduce,ring,,4294967295,dp*\nallreduce,tree,4G,,ep\n",
			"4gib-bound", "p.csv:2:4: warning: max_bytes 4294967295"},
		{"collective,algorithm,min_bytes_per_rank,max_bytes_per_rank\nallreduce,ring,0,1K\nallreduce,tree,1536,2K\n",
			"gap", "p.csv:3: warning: allreduce with any communicator: no row matches 1025 - 1535 per rank"},
		{"collective,algorithm,min_bytes_per_rank,max_bytes_per_rank\nallreduce,ring,0,1K\nallreduce,tree,1K,2K\n",
			"overlap", "p.csv:3: warning: line 2 comes first and matches 1KiB per rank as well"},
		{"collective,algorithm,max_bytes,when\nallreduce,ring,1M,\nallreduce,tree,1M,bytes > 1\n", "wide-first",
			"p.csv:3: note: line 2 comes first and decides 0 - 1MiB wherever ring is available"},
		{"collective,algorithm,max_bytes,when\nallreduce,ring,1M,\nallreduce,tree,4M,bytes > 1\n", "wide-first",
			"p.csv:3: note: line 2 comes first and decides 0 - 1MiB wherever ring is available"},
		{"collective,algorithm,max_bytes,when\nallreduce,ring,1M,bytes > 1\nallreduce,tree,1K,\n", "wide-first", ""},
		{"collective,algorithm,max_bytes,when\nallreduce,ring,1M,bytes > 1\nallreduce,tree,1K,bytes > 2\n", "wide-first", ""},
		{"collective,algorithm,max_bytes,comm_name\nallreduce,ring,1M,dp*\nallreduce,tree,1M,dp1\n", "wide-first",
			"p.csv:3: note: line 2 comes first and decides 0 - 1MiB"},
		{"collective,algorithm,max_bytes,comm_name\nallreduce,ring,1M,dp\nallreduce,tree,1K,ep\n", "wide-first", ""},
		{"collective,algorithm,max_bytes_per_rank\nallreduce,ring,1M\nallreduce,tree,1K\n", "wide-first",
			"p.csv:3: note: line 2 comes first and decides 0 - 1KiB per rank wherever"},
		{"collective,algorithm,max_bytes,max_bytes_per_rank,ranks\nallreduce,ring,,1M,\nallreduce,tree,1K,,8\n", "wide-first",
			"p.csv:3: note: line 2 comes first and decides 0 - 1KiB wherever"},
		{"collective,algorithm,max_bytes,max_bytes_per_rank\nallreduce,ring,,1M\nallreduce,tree,1K,\n", "wide-first", ""},
	} {
		var found []string
		for _, f := range Check("p.csv", []byte(c.text), Options{}) {
			if f.Rule == c.rule {
				found = append(found, f.String())
			}
		}
		if got := strings.Join(found, "\n"); !strings.HasPrefix(got, c.says) || (c.says == "") != (got == "") {
			t.Errorf("%q: %q, want %q", c.text, got, c.says)
		}
	}
}

// From NCCL 2.31 on a row's channels only lower what NCCL takes for the size by itself.
func TestChannelsThatNCCLDoesNotRaise(t *testing.T) {
	newest := func(comm nccl.Comm) *tuning.Tuning {
		m := machine(comm)
		if m != nil {
			m.NCCL = nccl.Newest
			m.MaxThreads[nccl.AlgoRing] = [3]int{512, 640, 512}
			m.ThreadThresholds[nccl.AlgoRing] = [3]int64{8, 8, 64}
		}
		return m
	}
	for row, want := range map[string]string{
		"allreduce,0,64K,ring,simple,4,1,8,,\n": "p.csv:2:6: warning: channels 4, but with 1 node, 8 ranks NCCL " +
			"2.31.2 takes at most 2 by itself for ring/simple of the row's sizes on this machine",
		"allreduce,0,64K,ring,simple,2,1,8,,\n":  "",
		"allreduce,0,inf,ring,simple,16,1,8,,\n": "",
		"allreduce,0,inf,ring,simple,17,1,8,,\n": "p.csv:2:6: warning: channels 17, but with 1 node, 8 ranks NCCL " +
			"2.31.2 takes at most 16",
	} {
		var found string
		for _, f := range Check("p.csv", []byte(header+row), Options{Machine: newest}) {
			if f.Rule == "channels-above-machine" {
				found = f.String()
			}
		}
		if !strings.HasPrefix(found, want) || (want == "") != (found == "") {
			t.Errorf("%s: %q, want %q", row, found, want)
		}
	}
}

// What lets sums vary is looked for where that is asked for, and cannot be silenced.
func TestSumsVary(t *testing.T) {
	const text = header + "allreduce,0,inf,ring,simple,,,,,\nallreduce,0,inf,ring,simple,8,,,,tunefit:ignore sums-vary\n" +
		"reduce,4K,inf,ring,simple,8,,,,tunefit:ignore sums-vary\n"
	if found := Check("p.csv", []byte(text), Options{}); slices.ContainsFunc(found, isAbout("sums-vary")) {
		t.Errorf("%v", found)
	}
	found := slices.DeleteFunc(Check("p.csv", []byte(text), Options{Invariant: true}),
		func(f Diagnostic) bool { return !isAbout("sums-vary")(f) })
	if len(found) != 2 || !strings.HasPrefix(found[0].String(), "p.csv:2:6: error: the row leaves channels to NCCL") ||
		!strings.HasPrefix(found[1].String(), "p.csv:4:2: error: the row is for 4KiB - inf only") {
		t.Errorf("%v", found)
	}
}

// A row that asks for one configuration, and whether it adds all elements in one order.
func TestSumOrder(t *testing.T) {
	for row, want := range map[string]string{
		"allreduce,,,tree,simple,1":         "",
		"reducescatter,,,ring,simple,1":     "",
		"reduce,,,ring,ll,1":                "",
		"reducescatter,,,pat,simple,1":      "",
		"broadcast,,,ring,ll,8":             "",
		"allreduce,,1M,ring,ll,8":           "", // another finding
		"allreduce,,,ring,simple,1":         "ring/simple 1 ch: an element's place in the ring's chunks decides the order",
		"any,,,ring,simple,1":               "ring/simple 1 ch: an element's place",
		"allreduce,,,tree,ll,2":             "tree/ll 2 ch: channels add in different orders",
		"reducescatter,,,nvls,simple,1":     "nvls/simple 1 ch: a switch adds",
		"allreduce,,,collnet_chain,simple,": "collnet_chain/simple: a switch adds",
	} {
		var found []Diagnostic
		for _, f := range Check("p.csv", []byte(header+row+",,,,\n"), Options{Invariant: true}) {
			if isAbout("sum-order")(f) {
				found = append(found, f)
			}
		}
		if want == "" && len(found) > 0 || want != "" && (len(found) != 1 ||
			!strings.HasPrefix(found[0].String(), "p.csv:2:4: note: "+want)) {
			t.Errorf("%s: %v", row, found)
		}
	}
	silenced := header + "allreduce,,,tree,ll,2,,,,tunefit:ignore sum-order -- the sizes never change\n"
	if found := Check("p.csv", []byte(silenced), Options{Invariant: true}); len(found) > 0 {
		t.Errorf("%v", found)
	}
}

func isAbout(rule string) func(Diagnostic) bool {
	return func(f Diagnostic) bool { return f.Rule == rule }
}

// Every rule is known, explained, and met by a test above or one of models.
func TestRulesAreDocumented(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules {
		if seen[r.Name] || r.Name != strings.ToLower(r.Name) || r.Summary == "" || len(r.Explain) < 40 {
			t.Errorf("%+v", r)
		}
		seen[r.Name] = true
	}
}

// Rows of a file without names of columns that RCCL's own tuner reads as the library does, and others.
func TestRCCLsOwnTuner(t *testing.T) {
	for row, alike := range map[string]bool{
		"allreduce,0,65536,tree,ll,8,2,16,-1,-1":                true,
		"allreduce,0,65536,tree,ll,-1,-1,-1":                    true,
		" broadcast , 0 , 1024 , ring , simple , 4 , 1 , 8 , 1": true,
		"allreduce,0,64K,tree,ll,8,2,16,-1,-1":                  false,
		"allreduce,0,inf,tree,ll,8,2,16,-1,-1":                  false,
		"allreduce,0,65536,-1,ll,8,2,16,-1,-1":                  false,
		"AllReduce,0,65536,tree,ll,8,2,16,-1,-1":                false,
		"allreduce,0,65536,tree,ll,8,2,,-1,-1":                  false,
		"allreduce,0,65536,nvlstree,simple,8,2,16":              false,
	} {
		findings := Check("p.csv", []byte("# tunefit:measured RCCL 2.27.7\n"+row+"\n"), Options{})
		found := slices.ContainsFunc(findings, func(f Diagnostic) bool { return f.Rule == "rccl-own-tuner" })
		if found == alike {
			t.Errorf("%s: found %v in %v", row, found, findings)
		}
	}
}
