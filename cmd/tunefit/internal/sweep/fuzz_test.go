package sweep

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// A journal that somebody has edited: it is read, or the error names the line. What is read comes back as the same.
func FuzzJournal(f *testing.F) {
	var whole []byte
	for _, l := range begun {
		text, err := json.Marshal(l)
		if err != nil {
			f.Fatal(err)
		}
		whole = append(append(whole, text...), '\n')
	}
	f.Add(whole)
	f.Add([]byte(`{"batch":{"kind":"prove","starts":[{"name":"a"}]}}` + "\n" + `{"begin":{"run":1,"start":1,"log":"logs/1.log"}}` + "\n{"))
	f.Add([]byte("{\"end\":{\"run\":1}}\n\n"))
	f.Add([]byte("{\"end\":{\"run\":0}}\n"))
	f.Add([]byte("{\"begin\":{\"run\":1,\"batch\":-1,\"log\":\"logs/1.log\"}}\n"))
	f.Add([]byte(`{"batch":{"kind":"prove","starts":[{"name":"a"}]}}` + "\n" + `{"begin":{"run":1,"start":-1,"log":"logs/1.log"}}` + "\n"))
	place := regexp.MustCompile(`journal\.jsonl:[1-9][0-9]*: `)
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		file := filepath.Join(dir, "journal.jsonl")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		j, err := openJournal(dir)
		if err != nil {
			if !place.MatchString(err.Error()) {
				t.Errorf("the error names no line: %v", err)
			}
			return
		}
		j.close()
		again, err := openJournal(dir)
		if err != nil {
			t.Fatalf("what was read is refused: %v", err)
		}
		defer again.close()
		if !reflect.DeepEqual(again.batches, j.batches) || !reflect.DeepEqual(again.runs, j.runs) {
			t.Errorf("read again\n%+v, before\n%+v", again.runs, j.runs)
		}
	})
}

func BenchmarkWorstJournal(b *testing.B) {
	const (
		batch = `{"batch":{"kind":"prove","starts":[{"name":"a"}]}}` + "\n"
		begin = `{"begin":{"run":1,"start":0,"log":"logs/1.log"}}` + "\n"
	)
	dir := b.TempDir()
	file := filepath.Join(dir, "journal.jsonl")
	hostile.Benchmark(b, func(text []byte) error {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			b.Fatal(err)
		}
		j, err := openJournal(dir)
		if err == nil {
			err = j.close()
		}
		return err
	},
		hostile.Text{Unit: batch}, hostile.Text{Head: batch + begin, Unit: `{"end":{"run":1}}` + "\n"},
		hostile.Text{Head: `{"batch":{"starts":[`, Unit: `{"name":"a"},`, Tail: `{"name":"a"}]}}` + "\n"},
		hostile.Text{Head: `{"batch":{"starts":[{"name":"`, Unit: "X", Tail: `"}]}}` + "\n"},
		hostile.Text{Head: `{"end":{"run":`, Unit: "1", Tail: "}}\n"},
	)
}
