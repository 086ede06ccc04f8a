package draw

import (
	"bytes"
	"encoding/xml"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/golden"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

func system(t *testing.T, file string) *topo.System {
	t.Helper()
	doc, err := topo.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := topo.Build(doc, topo.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func checkPicture(t *testing.T, file string) {
	t.Helper()
	s := system(t, file)
	var svg bytes.Buffer
	if err := SVG(&svg, s); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(&svg); ; {
		_, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s: not XML: %v", file, err)
		}
	}
	l := newLayout(newPicture(s))
	for i, a := range l.at {
		if a.x-a.w/2 < 0 || a.x+a.w/2 > l.width || a.top() < 0 || a.bottom() > l.height {
			t.Errorf("%s: %v is outside the picture", file, l.boxes[i].text)
		}
		for j, b := range l.at[:i] {
			if a.x-b.x < (a.w+b.w)/2 && b.x-a.x < (a.w+b.w)/2 && a.y-b.y < (a.h+b.h)/2 && b.y-a.y < (a.h+b.h)/2 {
				t.Errorf("%s: %v lies over %v", file, l.boxes[i].text, l.boxes[j].text)
			}
		}
	}
}

func TestPictures(t *testing.T) {
	files, err := filepath.Glob("../testdata/*.xml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files (%v)", err)
	}
	for _, f := range files {
		checkPicture(t, f)
	}
}

func TestPicturesOfKnownSystems(t *testing.T) {
	for _, f := range golden.Files(t, "system.xml") {
		checkPicture(t, f)
	}
}

var update = flag.Bool("update", false, "write the pictures anew")

// A change of the pictures, of where boxes, lines and labels lie or of how they look, is seen.
func TestSVG(t *testing.T) {
	for _, name := range []string{"chain3", "grace", "nvswitch4"} {
		var got bytes.Buffer
		if err := SVG(&got, system(t, "../testdata/"+name+".xml")); err != nil {
			t.Fatal(err)
		}
		file := "testdata/" + name + ".svg"
		if *update {
			if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s is another picture now (%v); -update writes it anew: look at it", file, err)
		}
	}
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
