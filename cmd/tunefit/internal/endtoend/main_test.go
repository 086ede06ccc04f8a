// Package endtoend has tests that follow measurements through several commands: to a policy, and to what it decides.
package endtoend

import (
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/command"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m, command.Main, command.Run) }

// Tests run command lines by these.
var tunefit, runAlone = testkit.Tunefit, testkit.RunAlone

const smallSweep = "../../../../policy/fit/testdata/small.csv"
