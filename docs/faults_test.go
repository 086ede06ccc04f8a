package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tests that docs/dev/FAULTS.md names are there, each fault has one, and what it says of the log is in the code.
func TestFaults(t *testing.T) {
	var code, tests strings.Builder
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		ext := filepath.Ext(path)
		if err == nil && (ext == ".go" || ext == ".c") && !strings.HasPrefix(path, filepath.Join(root, "build")) {
			var text []byte
			text, err = os.ReadFile(path)
			if strings.HasSuffix(path, "_test.go") {
				tests.Write(text)
			} else {
				code.Write(text)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	source := regexp.MustCompile(`"\s*\+\s*"`).ReplaceAllString(code.String(), "")
	rows := regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$`).FindAllStringSubmatch(
		pages(t)["docs/dev/FAULTS.md"], -1)
	quoted := regexp.MustCompile("`([^`]+)`")
	// What stands in a message for what the code fills in.
	filled := regexp.MustCompile(`\.\.\.|\d+|9f2c01d4a7be|policy\.csv|aborted, (\w| )+`)
	faults := 0
	for _, row := range rows {
		if row[1] == "fault" {
			continue
		}
		faults++
		names := quoted.FindAllStringSubmatch(row[3], -1)
		if len(names) == 0 {
			t.Errorf("%s: no test plays it", row[1])
		}
		for _, name := range names {
			if !strings.Contains(tests.String(), "\nfunc "+name[1]+"(") {
				t.Errorf("%s: there is no test %s", row[1], name[1])
			}
		}
		for _, said := range quoted.FindAllStringSubmatch(row[2], -1) {
			for _, part := range filled.Split(said[1], -1) {
				if part = strings.TrimSpace(part); part != "" && !strings.Contains(source, part) {
					t.Errorf("%s: no message says %q", row[1], part)
				}
			}
		}
	}
	if faults < 30 {
		t.Errorf("%d faults found", faults)
	}
}
