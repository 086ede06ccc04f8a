package ask

import (
	"os"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

func TestMain(m *testing.M) {
	os.Exit(testlib.Run(m))
}
