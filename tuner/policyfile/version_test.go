package policyfile

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// bundleOf is what another rank with this policy file brings.
func bundleOf(file, text string) (content []byte, digest string) {
	content = Bundle{Policy: Source{file, []byte(text)}}.Encode()
	return content, agree.DigestOf(content)
}

// All communicators of a process use one compiled version, whether they have read it
// themselves or got it from another rank, one after the other or at the same time.
func TestAVersionIsCompiledOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	write(t, file, rows(1))
	l := newLoader()
	content, digest := bundleOf(file, rows(1))
	versions, engines := make([]*Version, 20), make([]*policy.Engine, 20)
	var all sync.WaitGroup
	for i := range versions {
		all.Go(func() {
			if i%2 == 0 {
				versions[i], _ = l.Decode(content, digest, telemetry.Log{})
			} else {
				read, _ := l.Load(named(file), telemetry.Log{})
				versions[i] = read
			}
			engines[i] = versions[i].engine
		})
	}
	all.Wait()
	for i, v := range versions {
		if v != versions[0] || engines[i] == nil || engines[i] != engines[0] {
			t.Errorf("communicator %d uses another version: %p, %p", i, v, engines[i])
		}
	}
	if f := l.files[fileKey{Named: named(file).Policy}]; &f.text[0] !=
		&versions[0].content[len(content)-len(f.text)] {
		t.Error("two copies of the file's text are kept")
	}
}

// A content that cannot be used is refused each time, and is no version of its own.
func TestABadContentIsRefused(t *testing.T) {
	l := newLoader()
	content, digest := bundleOf("p.csv", "allreduce,0,inf,rign,ll,-1,-1,-1\nx,0,inf,ring,ll,-1,-1,-1\n")
	for range 2 {
		v, err := l.Decode(content, digest, telemetry.Log{})
		if v != nil || err == nil || !strings.Contains(err.Error(), "p.csv:1:4: unknown algorithm") ||
			!strings.HasSuffix(err.Error(), ", and 1 more") {
			t.Errorf("%v, %v", v, err)
		}
	}
}

// What a process remembers of versions is bounded, and what is used stays.
func TestVersionsAreBounded(t *testing.T) {
	l := newLoader()
	get := func(channels int) *Version {
		content, digest := bundleOf("p.csv", rows(channels))
		v, err := l.Decode(content, digest, telemetry.Log{})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	used := get(1)
	for channels := range 5 * maxVersions {
		get(2 + channels)
		if get(1) != used {
			t.Fatalf("after %d others the version that is used is compiled again", channels+1)
		}
	}
	if len(l.versions) != maxVersions {
		t.Errorf("%d versions are kept", len(l.versions))
	}
}

// Versions are told apart by what they mean here, not by their text.
func TestSameMeaning(t *testing.T) {
	bundle := func(text string) Bundle { return Bundle{Policy: Source{"p.csv", []byte(text)}} }
	for _, c := range []struct {
		other string
		same  bool
	}{
		{rows(1), true}, {rows(1) + "# a comment\n", true}, {rows(2), false}, {"allreduce,0,inf,rign\n", false},
		{"", false},
	} {
		if same := SameEffect(bundle(rows(1)), bundle(c.other), unset); same != c.same {
			t.Errorf("%q: %v", c.other, same)
		}
	}
}

// A version is named by its files and its meaning.
func TestVersionString(t *testing.T) {
	for _, c := range []struct {
		bundle Bundle
		want   string
	}{
		{Bundle{}, "NCCL's default"},
		{Bundle{Policy: Source{"p.csv", []byte(rows(1))}}, "p.csv (version M)"},
	} {
		content := c.bundle.Encode()
		v, err := newLoader().Decode(content, agree.DigestOf(content), telemetry.Log{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Replace(v.String(), v.EffectDigest()[:min(12, len(v.EffectDigest()))], "M", 1); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	if None.String() != "NCCL's default" {
		t.Error(None)
	}
}

// Who lacks a variable that the rows were measured under is warned, once for all communicators.
func TestALackedVariableIsTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	write(t, file, "# tunefit:under FI_PROVIDER=cxi NCCL_IB_QPS_PER_CONNECTION=4 -- for jobs with these variables only\n"+rows(1))
	for qps, want := range map[string]int{"": 1, "2": 1, "4": 0} {
		env := map[string]string{"FI_PROVIDER": "cxi", "NCCL_IB_QPS_PER_CONNECTION": qps}
		l := NewLoader(func(name string) string { return env[name] }, new(safefile.Timeouts), func(string, bool) {})
		var said []string
		log := telemetry.Log{Emit: func(level telemetry.Level, _ string, _ int, text string) {
			said = append(said, text)
		}}
		for range 2 {
			if _, err := l.Load(named(file), log); err != nil {
				t.Fatal(err)
			}
		}
		if len(said) != want || want > 0 && !strings.Contains(said[0],
			"measured under NCCL_IB_QPS_PER_CONNECTION=4, and this job does not have it") {
			t.Errorf("with %q it says %q", qps, said)
		}
	}
}
