package telemetry

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// ComparisonFiles matches the names of files in NCCL_TUNER_RECORD that hold a trial.Conclusion.
const ComparisonFiles = "comparison-*.json"

// WriteFinding writes a finding to a directory, one file for each comparison. It replaces the file as a whole.
func WriteFinding(t *safefile.Timeouts, dir string, f *trial.Conclusion) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, strings.Replace(ComparisonFiles, "*", fmt.Sprintf("%s-%d", f.Key, f.Began.UnixMilli()),
		1))
	// The end of the communicator waits for this, and a file server may be away.
	return t.Do(path, recordLimit, func() error {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		return safefile.Write(path, append(text, '\n'))
	})
}
