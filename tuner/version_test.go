package tuner

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// bundleOf is what another rank with this policy file brings.
func bundleOf(file, text string) (content []byte, digest string) {
	content = Bundle{Policy: Source{file, []byte(text)}}.encode()
	return content, agree.DigestOf(content)
}

// All communicators of a process use one compiled version, whether they have read it
// themselves or got it from another rank, one after the other or at the same time.
func TestAVersionIsCompiledOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	write(t, file, rows(1))
	p := New(env())
	content, digest := bundleOf(file, rows(1))
	versions, engines := make([]*version, 20), make([]*policy.Engine, 20)
	var all sync.WaitGroup
	for i := range versions {
		all.Go(func() {
			if i%2 == 0 {
				versions[i], _ = p.versionFrom(content, digest, telemetry.Log{})
			} else {
				l, _ := p.load(settings{configFile: file}, telemetry.Log{})
				versions[i] = l.version
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
	if f := p.files[fileKey{policyKind, file}]; &f.text[0] != &versions[0].content[len(content)-len(f.text)] {
		t.Error("two copies of the file's text are kept")
	}
}

// A content that cannot be used is refused each time, and is no version of its own.
func TestABadContentIsRefused(t *testing.T) {
	p := New(env())
	content, digest := bundleOf("p.csv", "allreduce,0,inf,rign,ll,-1,-1,-1\nx,0,inf,ring,ll,-1,-1,-1\n")
	for range 2 {
		v, err := p.versionFrom(content, digest, telemetry.Log{})
		if v != nil || err == nil || !strings.Contains(err.Error(), "p.csv:1:4: unknown algorithm") || !strings.HasSuffix(err.Error(), ", and 1 more") {
			t.Errorf("%v, %v", v, err)
		}
	}
}

// What a process remembers of versions is bounded, and what is used stays.
func TestVersionsAreBounded(t *testing.T) {
	p := New(env())
	get := func(channels int) *version {
		content, digest := bundleOf("p.csv", rows(channels))
		v, err := p.versionFrom(content, digest, telemetry.Log{})
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
	if len(p.versions) != maxVersions {
		t.Errorf("%d versions are kept", len(p.versions))
	}
}

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
