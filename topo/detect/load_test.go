package detect

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// vendorFile is what a cloud ships for twoSockets: the PCI tree as it really is, with two GPUs more than this virtual
// machine has, and nothing about what is on the cards.
const vendorFile = `<system version="1">
  <cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0000:03:00.0" class="0x030200" link_speed="32 GT/s" link_width="8"/>
      <pci busid="0000:04:00.0" class="0x030200" link_speed="32 GT/s" link_width="8"/>
      <pci busid="0000:05:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
    </pci>
    <pci busid="ffff:ff:02.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0000:83:00.0" class="0x030200" link_speed="32 GT/s" link_width="8"/>
      <pci busid="0000:84:00.0" class="0x030200" link_speed="32 GT/s" link_width="8"/>
      <pci busid="0000:93:00.0" class="0x030200" link_speed="32 GT/s" link_width="8"/>
    </pci>
  </cpu>
</system>
`

func TestLoadOrder(t *testing.T) {
	m := twoSockets(t)
	m.write("/tuner.xml", `<system version="1" name="tuner"/>`)
	m.write("/nccl.xml", `<system version="1" name="nccl"/>`)
	m.write("/bad.xml", `<system version="1">`)
	noGPU := fakeNVML{}

	tests := []struct {
		name    string
		env     map[string]string
		virtual string
		want    string // name of the system
		source  string
	}{
		{"tuner's file first", map[string]string{TunerFileVariable: "/tuner.xml", ncclFileVariable: "/nccl.xml"},
			"v", "tuner",
			"NCCL_TUNER_TOPO_FILE=/tuner.xml"},
		{"NCCL's file", map[string]string{ncclFileVariable: "/nccl.xml"}, "v", "nccl", "NCCL_TOPO_FILE=/nccl.xml"},
		{"virtual machine's file", nil, "v", "v", virtualFile},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m.write(virtualFile, `<system version="1" name="`+tt.virtual+`"/>`)
			doc, src, err := Load(func(k string) string { return tt.env[k] }, m.root, noGPU)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := doc.Root.Attr("name"); got != tt.want || src.String() != tt.source {
				t.Errorf("system %q from %q, want %q from %q", got, src, tt.want, tt.source)
			}
		})
	}

	if err := syscall.Mkfifo(filepath.Join(m.root, "fifo.xml"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A sound file that everybody can write to.
	open := filepath.Join(m.root, "open.xml")
	if err := errors.Join(os.WriteFile(open, []byte(`<system version="1"/>`), 0o600),
		os.Chmod(open, 0o666)); err != nil {
		t.Fatal(err)
	}
	for _, variable := range []string{TunerFileVariable, ncclFileVariable} {
		for _, file := range []string{"/missing.xml", "/bad.xml", "/fifo.xml", "/open.xml"} {
			_, _, err := Load(func(k string) string { return map[string]string{variable: file}[k] }, m.root, fourA100())
			if err == nil || !strings.HasPrefix(err.Error(), variable+": ") || !strings.Contains(err.Error(), file) {
				t.Errorf("%s=%s: error %v", variable, file, err)
			}
		}
	}
}

func TestLoadDetectsWithoutAFile(t *testing.T) {
	doc, src, err := Load(func(string) string { return "" }, twoSockets(t).root, fourA100())
	if err != nil {
		t.Fatal(err)
	}
	checkXML(t, doc, "testdata/two_sockets.xml")
	if src.String() != "detected" {
		t.Errorf("source %q", src)
	}
	if _, _, err := Load(func(string) string { return "" }, t.TempDir(), fakeNVML{}); !errors.Is(err, ErrNoGPU) {
		t.Errorf("error %v, want ErrNoGPU", err)
	}
}

// The file says where things are, the machine says which of them are there and what is on them.
func TestLoadCompletesAVendorsFile(t *testing.T) {
	m := twoSockets(t)
	m.write(virtualFile, vendorFile)
	doc, src, err := Load(func(string) string { return "" }, m.root, fourA100())
	if err != nil {
		t.Fatal(err)
	}
	if want := virtualFile + ", completed by detection"; src.String() != want {
		t.Errorf("source %q, want %q", src, want)
	}
	var out bytes.Buffer
	if err := doc.Write(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		`<pci busid="0000:04:00.0" class="0x030200" link_speed="32 GT/s" link_width="8" vendor="0x10de"`,
		`<gpu dev="3" sm="80" rank="3" gdr="1" mlopart="-1">`, `<net name="mlx5_1" dev="1"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "0000:93:00.0") {
		t.Errorf("a GPU of the file that the machine has not is still there:\n%s", text)
	}
	if n := strings.Count(text, `busid="ffff:ff:01.0"`); n != 1 {
		t.Errorf("the switch of the file appears %d times:\n%s", n, text)
	}
}

// A topology of several hosts, and a GPU with fewer links than the others, are told with the source.
func TestLoadDoubts(t *testing.T) {
	m := twoSockets(t)
	gpu := func(host, bus, links string) string {
		return `<cpu host_hash="` + host + `" numaid="0" arch="x86_64"><pci busid="0000:` + bus +
			`:00.0" class="0x030200"><gpu dev="0" sm="90" rank="0"><nvlink target="x" count="` + links +
			`" tclass="0x068000"/></gpu></pci></cpu>`
	}
	m.write("/domain.xml", `<system version="1">`+gpu("0x1", "01", "18")+gpu("0x2", "02", "9")+`</system>`)
	for variable, hosts := range map[string]int{ncclFileVariable: 2, TunerFileVariable: 0} {
		_, src, err := Load(func(k string) string { return map[string]string{variable: "/domain.xml"}[k] }, m.root,
			fakeNVML{})
		if err != nil || src.Hosts != hosts || len(src.FewerNVLinks) != 1 {
			t.Errorf("%s: %v: %+v", variable, err, src)
		}
	}
}
