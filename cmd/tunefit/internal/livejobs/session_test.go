package livejobs_test

import (
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
)

func TestSessions(t *testing.T) { testkit.Sessions(t, "testdata/sessions") }
