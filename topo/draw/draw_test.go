package draw

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

func system(t *testing.T, file string) *topo.System {
	t.Helper()
	doc, err := topo.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := topo.Build(doc, topo.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDOT(t *testing.T) {
	var out bytes.Buffer
	if err := DOT(&out, system(t, "../testdata/chain3.xml")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"graph topology {", `label="gpu0\nsm_70"`, `label="NVL 40"`, `label="NVL 20"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
	out.Reset()
	if err := DOT(&out, system(t, "../testdata/two_hosts.xml")); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "subgraph cluster_"); n != 2 {
		t.Errorf("%d clusters for two hosts", n)
	}
}
