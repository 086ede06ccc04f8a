package sweep_test

import (
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/command"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m, command.Main, command.Run) }

// Tests run command lines by it.
var tunefit = testkit.Tunefit
