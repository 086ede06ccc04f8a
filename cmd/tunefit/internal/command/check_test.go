package command

import (
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
)

const faulty = `# faulty on purpose
collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks_per_node,chunk_bytes
AllReduce,0,64K,tree,ll,96,2,8,
allreduce,65537,4294967295,ring,simple,,2,8,500
allreduce,1M,2M,nvls,simple,8,4,8,
allreduce,0,65536,Tree,LL,64,2,8,-1
allgather,0,1M,tree,,,2,8,
`

func TestCheckRulesAndExplanations(t *testing.T) {
	out, _ := tunefit(t, cli.ExitOK, "check", "--rules")
	if !strings.Contains(out, "\nshadowed ") {
		t.Errorf("%s", out)
	}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
		name := strings.Fields(line)[0]
		if out, _ := tunefit(t, cli.ExitOK, "check", "--explain", name); !strings.HasPrefix(out, name+" (") {
			t.Errorf("%s", out)
		}
	}
}
