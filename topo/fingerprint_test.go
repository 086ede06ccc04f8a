package topo

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
)

func fingerprint(t testing.TB, doc *Document) Fingerprint {
	t.Helper()
	s, err := Build(doc, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Fingerprint()
}

// renamed is the same machine with other numbers, names and orders.
func renamed(doc *Document) *Document {
	root := doc.Root.Clone()
	gpus := 0
	for e := range root.All() {
		if e.Name == "gpu" {
			gpus++
		}
	}
	for e := range root.All() {
		slices.Reverse(e.Children)
		for i := range e.Attrs {
			a := &e.Attrs[i]
			number := func(f func(int) int) { a.Value = strconv.Itoa(f(e.Int(a.Name, 0))) }
			switch {
			case a.Name == "busid" || a.Name == "target" && strings.HasPrefix(a.Value, "0"):
				a.Value = "7" + a.Value[1:]
			case a.Name == "numaid" && a.Value != "-1":
				number(func(n int) int { return 40 - n })
			case e.Name == "gpu" && (a.Name == "rank" || a.Name == "dev"):
				number(func(n int) int { return 200 - n })
			case e.Name == "net" && a.Name == "dev":
				number(func(n int) int { return 300 - n })
			case a.Name == "name" || a.Name == "affinity":
				a.Value = "x" + a.Value
			case a.Name == "host_hash":
				a.Value += "9"
			}
		}
	}
	return &Document{Root: root}
}

func TestFingerprintDoesNotDependOnNumbersAndNames(t *testing.T) {
	docs := map[string]*Document{}
	for _, name := range []string{"two_sockets.xml", "vm.xml"} {
		docs[name] = fixture(t, "../detect/testdata/"+name)
	}
	for name, doc := range docs {
		if a, b := fingerprint(t, doc), fingerprint(t, renamed(doc)); a != b {
			t.Errorf("%s: %v, renamed %v", name, a, b)
		}
	}
	if fingerprint(t, docs["two_sockets.xml"]) == fingerprint(t, docs["vm.xml"]) {
		t.Error("different machines have one fingerprint")
	}
}

func TestFingerprintTellsMachinesApart(t *testing.T) {
	base := fixture(t, "../detect/testdata/two_sockets.xml")
	set := func(name, attr, value string) func(*Element) {
		return func(root *Element) {
			for e := range root.All() {
				if e.Name == name && e.Has(attr) {
					e.Set(attr, value)
				}
			}
		}
	}
	tests := []struct {
		name   string
		change func(root *Element)
		same   bool
	}{
		{"nothing", func(*Element) {}, true},
		{"host", func(root *Element) { root.Child("cpu").Set("affinity", "f") }, true},
		{"slower slots", set("pci", "link_speed", "8.0 GT/s PCIe"), false},
		{"fewer NVLinks", set("nvlink", "count", "4"), false},
		{"another GPU of the generation", set("gpu", "sm", "86"), false},
		{"newer GPUs", set("gpu", "sm", "90"), false},
		{"no GPUDirect", set("net", "gdr", "0"), false},
		{"another vendor's CPU", set("cpu", "vendor", "AuthenticAMD"), false},
		{"one port less", func(root *Element) {
			nic := root.Find("net", "name", "mlx5_1")
			for e := range root.All() {
				e.Children = slices.DeleteFunc(e.Children, func(c *Element) bool { return c == nic })
			}
		}, false},
	}
	want := fingerprint(t, base)
	for _, tt := range tests {
		root := base.Root.Clone()
		tt.change(root)
		if same := fingerprint(t, &Document{Root: root}) == want; same != tt.same {
			t.Errorf("%s: same %t, want %t", tt.name, same, tt.same)
		}
	}
}

func TestFingerprintsOfKnownSystems(t *testing.T) {
	seen := make(map[Fingerprint]string)
	for _, file := range nccltest.Files(t, "system.xml") {
		dir := nccltest.System(file)
		doc := readGolden(t, file)
		f := fingerprint(t, doc)
		if g := fingerprint(t, renamed(doc)); f != g {
			t.Errorf("%s: %v, renamed %v", dir, f, g)
		}
		// One is the other with the two-level switches merged by hand, which is what NCCL does itself.
		if other, ok := seen[f]; ok && !(strings.Contains(dir, "oci-") && strings.Contains(other, "oci-")) {
			t.Errorf("%s has the fingerprint of %s", dir, other)
		}
		seen[f] = dir
	}
}

func TestFingerprintText(t *testing.T) {
	if got, err := ParseFingerprint("0123456789abcdef"); err != nil || got != "0123456789abcdef" {
		t.Errorf("%v, %v", got, err)
	}
	for _, s := range []string{"", "0123456789abcdef:0123456789abcdef", "0123456789abcxyz", "0123456789ABCDEF",
		"0123456789abcde"} {
		if _, err := ParseFingerprint(s); err == nil {
			t.Errorf("%q taken for a fingerprint", s)
		}
	}
}
