package lint

import (
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// A row that is for releases which lack what it asks for is named, and no other.
func TestReleases(t *testing.T) {
	const head = "collective,algorithm,protocol,nccl,chunk_bytes,reg_buff,comm_name,ranks_per_node,channels,when\n"
	for _, c := range []struct {
		row  string
		nccl nccl.Version
		want string // what is said; "": nothing
	}{
		{"allreduce,ring,ll,2.28,512,,,,,", 0, "p.csv:2:5: warning: NCCL 2.28 asks no tuner for chunk sizes, which comes " +
			"with 2.30.3: it is left to NCCL"},
		{"allreduce,ring,ll,,512,,,,,", 22809, "p.csv:2:5: warning: NCCL 2.28.9 asks no tuner for chunk sizes"},
		{"allreduce,ring,ll,>=2.28,512,,,,,", 0, ""},
		{"allreduce,ring,ll,<2.24,,1,,,,", 0, "p.csv:2:6: warning: NCCL <=2.23 does not tell whether buffers are " +
			"registered, which comes with 2.24.3: the row never decides"},
		{"allreduce,ring,ll,2.21-2.26,,,dp,,,", 0, "p.csv:2:7: warning: NCCL 2.21-2.26 does not tell a communicator's name"},
		{"allreduce,ring,ll,2.21-2.26,,,,,,comm_name == 'dp'", 0, "p.csv:2:10: warning: NCCL 2.21-2.26 does not tell a " +
			"communicator's name, which comes with 2.27.3: the row never decides"},
		{"allgather,pat,simple,2.30,,,,8,,", 0, "p.csv:2:2: warning: NCCL 2.30 has pat only where each node has one " +
			"rank, which comes with 2.31.2: the row never decides"},
		{"allgather,pat,simple,,,,,8,,", 23007, "p.csv:2:2: warning: NCCL 2.30.7 has pat only"},
		{"allgather,pat,simple,>=2.31,,,,8,,", 0, ""},
		{"allgather,pat,simple,2.30,,,,1,,", 0, ""},
		{"allgather,pat,simple,2.22,,,,1,,", 0, "p.csv:2:2: warning: NCCL 2.22 has no pat, which comes with 2.23.4"},
		{"allreduce,ring,ll,2.28,,,,,,", 23102, "p.csv:2:4: note: the row is for NCCL 2.28, and NCCL 2.31.2 keeps its " +
			"default"},
		{"allreduce,ring,ll,>=2.28,,,,,,", 23102, ""},
		{"allreduce,ring,ll,<2.0,,,,,,", 0, "p.csv:2:4: warning: no release of NCCL in <2.0 is known (known: 2.21.5 to " +
			"2.32.6)"},
		{"allreduce,ring,ll,>=99.0,,,,,,", 23102, "p.csv:2:4: warning: no release of NCCL in >=99.0 is known"},
		{"allreduce,ring,ll,>=2.32,,,,,,", 0, ""},
		{"allreduce,ring,ll,<=2.21,,,,,,", 0, ""},
	} {
		var said []string
		for _, f := range Check("p.csv", []byte(head+c.row+"\n"), Options{NCCL: c.nccl}) {
			if f.Rule == "no-effect-in-release" || f.Rule == "never-offered" || f.Rule == Invalid {
				said = append(said, f.String())
			}
		}
		if c.want == "" && len(said) > 0 || c.want != "" && (len(said) != 1 || !strings.Contains(said[0], c.want)) {
			t.Errorf("%s, NCCL %s: %q, want %q", c.row, c.nccl, said, c.want)
		}
	}
}

// Rows for other releases or names hide nothing from each other.
func TestRowsOfReleasesAndNames(t *testing.T) {
	for rows, want := range map[string][]string{
		"allreduce,ring,2.28,\nallreduce,ring,,\n":            nil,
		"allreduce,ring,,\nallreduce,ring,2.28,\n":            {"shadowed"},
		"allreduce,ring,>=2.28,\nallreduce,ring,2.30.7,\n":    {"shadowed"},
		"allreduce,ring,<=2.30,\nallreduce,ring,2.28-2.31,\n": nil,
		"allreduce,ring,,dp*\nallreduce,ring,,dp:0\n":         {"shadowed"},
		"allreduce,ring,,dp*\nallreduce,ring,,d*\n":           nil,
		"allreduce,ring,,dp\nallreduce,ring,,\n":              nil,
	} {
		var said []string
		for _, f := range Check("p.csv", []byte("collective,algorithm,nccl,comm_name\n"+rows), Options{}) {
			said = append(said, f.Rule)
		}
		if !slices.Equal(said, want) {
			t.Errorf("%s: %v, want %v", rows, said, want)
		}
	}
}

// A gap is named with the releases that it is there for. Where rows leave it to some of them only, nothing is said.
func TestGapsByRelease(t *testing.T) {
	for rows, want := range map[string][]string{
		"allreduce,0,64KiB,2.28-2.30,\nallreduce,1M,4M,2.28-2.29,\nallreduce,8M,,,\n": {
			"p.csv:3: note: allreduce with NCCL 2.28-2.29: no row matches 65537 - 1048575, between lines 2 and 3",
			"p.csv:4: warning: allreduce with NCCL 2.28-2.29: no row matches 4194305 - 8388607, between lines 3 and 4",
		},
		"allreduce,0,64KiB,,\nallreduce,1M,4M,2.28,\nallreduce,8M,,,\n": {
			"p.csv:3: note: allreduce with NCCL 2.28: no row matches 65537 - 1048575, between lines 2 and 3",
			"p.csv:4: warning: allreduce with NCCL 2.28: no row matches 4194305 - 8388607, between lines 3 and 4",
		},
		"allreduce,0,64KiB,2.28-2.30,\nallreduce,65537,4M,2.28-2.29,\nallreduce,65537,4M,2.30,\n" +
			"allreduce,4194305,,,\n": nil,
		// cut by rows that change nothing
		"allreduce,0,64KiB,,\nallreduce,4K,8K,2.28,dp\nallgather,,,2.30.3,\nallreduce,8M,,,\n": {
			"p.csv:5: note: allreduce with any communicator: no row matches 65537 - 8388607, between lines 2 and 5",
		},
	} {
		var said []string
		text := "collective,min_bytes,max_bytes,nccl,comm_name,algorithm\n" + strings.ReplaceAll(rows, "\n", ",ring\n")
		for _, f := range Check("p.csv", []byte(text), Options{}) {
			if f.Rule == "gap" || f.Rule == Invalid {
				said = append(said, strings.TrimSuffix(f.String(), " [gap]"))
			}
		}
		if !slices.Equal(said, want) {
			t.Errorf("%s:\n%s\nwant\n%s", rows, strings.Join(said, "\n"), strings.Join(want, "\n"))
		}
	}
}
