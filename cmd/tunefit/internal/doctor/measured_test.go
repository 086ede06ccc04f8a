package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
)

// A sweep leaves the machine that it measured beside the policy. Another kind of machine is told, and the same one is
// not.
func TestMeasuredOnAnotherMachine(t *testing.T) {
	topologies := filepath.Join(testlib.Root, "configs/topo")
	text, err := os.ReadFile(filepath.Join(topologies, "dgx-a100.xml"))
	if err != nil {
		t.Fatal(err)
	}
	for here, told := range map[string]bool{"dgx-a100.xml": false, "dgx-h100.xml": true} {
		policy := testlib.File(t, "p.csv", "allreduce,0,1024,ring,ll,4,1,8\n")
		beside := filepath.Join(filepath.Dir(policy), "topology.xml")
		if err := os.WriteFile(beside, text, 0o644); err != nil {
			t.Fatal(err)
		}
		d := testDoctor(t, "NCCL_TUNER_CONFIG_FILE="+policy, "NCCL_TUNER_TOPO_FILE="+filepath.Join(topologies, here))
		d.detect = policyfile.FindMachine
		found := d.examine(t.Context(), only("files"))
		if told {
			mustFind(t, found, "files", isNote, policy+" was measured on another kind of machine, by "+beside,
				"tunefit topo "+beside)
			continue
		}
		for _, f := range found {
			if strings.Contains(f.Found, "another kind of machine") {
				t.Errorf("on %s: %v", here, f)
			}
		}
	}
}
