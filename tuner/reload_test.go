package tuner

import (
	"path/filepath"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// With NCCL_TUNER_RELOAD=off what the first communicator could not read stays so, too.
func TestReloadOffWithoutAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	p := New(env(EnvConfigFile, file, EnvReload, "off"))
	for range 2 {
		c, err := p.Open(eightRanks, telemetry.Log{})
		if err != nil || !c.Idle() {
			t.Errorf("%v; decides: %v", err, !c.Idle())
		}
		write(t, file, rows(1))
	}
}
