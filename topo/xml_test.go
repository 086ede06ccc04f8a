package topo

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

func TestReadKeepsWhatNCCLReads(t *testing.T) {
	const file = `<!-- as NCCL reads it -->
<!-- written
     by hand -->
<system version="1">
  <cpu numaid='0' note="a > b" numaid="7">
    <pci busid="0000:01:00.0" class="0x030200" >
      <gpu dev="0" rank="0">
        <nvlink target="0000:02:00.0" count="4" =""/>
        <unknown><gpu/></unknown>
      </gpu>
      <net dev="9"/>
    </pci>
    <nic><net name="eth0" flag/></nic>
  </cpu>
</system>
<system version="1"/>
`
	doc, err := Read("f.xml", strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	want := &Element{Name: "system", Line: 4, Attrs: []Attr{{"version", "1"}}, Children: []*Element{
		{Name: "cpu", Line: 5, Attrs: []Attr{{"numaid", "0"}, {"note", "a > b"}, {"numaid", "7"}}, Children: []*Element{
			{Name: "pci", Line: 6, Attrs: []Attr{{"busid", "0000:01:00.0"}, {"class", "0x030200"}},
				Children: []*Element{
					{Name: "gpu", Line: 7, Attrs: []Attr{{"dev", "0"}, {"rank", "0"}}, Children: []*Element{
						{Name: "nvlink", Line: 8, Attrs: []Attr{{"target", "0000:02:00.0"}, {"count", "4"}}},
					}},
				}},
			{Name: "nic", Line: 13, Children: []*Element{
				{Name: "net", Line: 13, Attrs: []Attr{{"name", "eth0"}, {"flag", ""}}},
			}},
		}},
	}}
	if !reflect.DeepEqual(doc.Root, want) {
		var got bytes.Buffer
		doc.Write(&got)
		t.Errorf("read\n%s", got.String())
	}
	if v, _ := doc.Root.Child("cpu").Attr("numaid"); v != "0" {
		t.Errorf("repeated attribute: got %q, want the first, as in NCCL", v)
	}
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	long := strings.Repeat("x", MaxText+1)
	tests := []struct{ name, file, want string }{
		{"empty", "", "f.xml:1:1: no <system> element"},
		{"other root", "<graphs version=\"1\"/>", "f.xml:1:22: no <system> element"},
		{"old version", "<system version=\"2\"/>", "f.xml:1: system version is 2, want 1"},
		{"no version", "\n<system/>", "f.xml:2: system version is 0, want 1"},
		{"not closed", "<system version=\"1\">\n <cpu>", "f.xml:2:7: <cpu> of line 2 is not closed"},
		{"crossed", "<system>\n <cpu>\n </system>", "f.xml:3:2: </system> closes nothing (open: <cpu> of line 2)"},
		{"closes nothing", "</cpu>", "f.xml:1:1: </cpu> closes nothing"},
		{"no XML", "# a file", `f.xml:1:1: NCCL does not read "# a file" here (needed: a topology in XML, as NCCL writes it ` +
			"for NCCL_TOPO_DUMP_FILE: tags on one line each, blanks between attributes and no tabs, values in quotes, no <?xml ...?>)"},
		{"text", "<system>hello</system>", `f.xml:1:9: NCCL does not read "hello</system>" here`},
		{"unquoted", "<system version=1/>", `f.xml:1:16: NCCL does not read "=1/>" here`},
		{"open quote", "<system version=\"1/>", `f.xml:1:16: NCCL does not read "=\"1/>" here`},
		{"no blank", "<system version=\"1\"name=\"a\"/>", `f.xml:1:20: NCCL does not read "name=\"a\"/>" here`},
		{"cut in a tag", "<system version=\"1\" ", `f.xml:1:21: NCCL does not read "" here`},
		{"cut comment", "<!-- ", "f.xml:1:1: <!-- has no -->"},
		{"no name", "< system>", `f.xml:1:1: NCCL does not read "< system>" here`},
		{"stray quote", `<system "1">`, `f.xml:1:9: NCCL does not read "\"1\">" here`},
		{"long value", "<system version='" + long + "'/>", "a name or a value is longer than 254 bytes"},
		{"long name", "<" + long + "/>", "a name or a value is longer than 254 bytes"},
		{"deep", strings.Repeat("<pci>", MaxDepth+2), "nested deeper than 256"},
		{"wide", "<system>" + strings.Repeat("<cpu/>", MaxChildren+1), "more than 640 children"},
		{"many", strings.Repeat("<a/>", MaxElements+1), "more than 65536 elements"},
		{"tab between", "<system version='1'>\n\t<cpu/></system>", `f.xml:2:1: NCCL does not read "\t<cpu/></system>" here`},
		{"tab in a tag", "<system\tversion='1'/>", `f.xml:1:8: NCCL does not read "\tversion='1'/>" here`},
		{"tag on two lines", "<system version='1'>\n<cpu numaid='0'\n arch='x'/></system>",
			`f.xml:2:16: NCCL does not read "\n arch='x'/></system>" here`},
		{"blank in a closing tag", "<system version='1'></system >", `f.xml:1:30: NCCL does not read ">" here`},
		{"declaration", "<?xml version='1.0'?>\n<system version='1'/>", `f.xml:1:1: NCCL does not read "<?xml version='1.0'?>\n<s`},
		{"byte order mark", "\ufeff<system version='1'/>", `f.xml:1:1: NCCL does not read "\ufeff<system`},
		{"more than NCCL keeps", "<system version='1'><cpu>" + strings.Repeat("\n<nic/>", 255) + "</cpu></system>",
			"f.xml:256:1: more than 256 elements, which NCCL refuses"},
		{"large", strings.Repeat(" ", MaxFileBytes+1), "larger than 16777216 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read("f.xml", strings.NewReader(tt.file))
			var syntax *SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("error %v, want a *SyntaxError", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want %q", err, tt.want)
			}
		})
	}
}

func TestReadIgnoresAttributesPastTheLimit(t *testing.T) {
	doc, err := Read("f.xml", strings.NewReader("<system version='1' "+strings.Repeat("a='b' ", MaxAttrs)+"/>"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(doc.Root.Attrs); n != MaxAttrs {
		t.Errorf("%d attributes kept, want %d", n, MaxAttrs)
	}
}

func TestWriteThenReadGivesTheSameTree(t *testing.T) {
	root := NewElement("system", "version", "1")
	cpu := root.Add(NewElement("cpu", "numaid", "0", "arch", "x86_64", "note", `say "hi"`))
	cpu.Add(NewElement("pci", "busid", "0000:01:00.0")).Add(NewElement("gpu", "dev", "0"))
	var out bytes.Buffer
	if err := (&Document{Root: root}).Write(&out); err != nil {
		t.Fatal(err)
	}
	const want = `<system version="1">
  <cpu numaid="0" arch="x86_64" note='say "hi"'>
    <pci busid="0000:01:00.0">
      <gpu dev="0"/>
    </pci>
  </cpu>
</system>
`
	if out.String() != want {
		t.Errorf("wrote\n%s\nwant\n%s", out.String(), want)
	}
}

func TestWriteRefusesWhatNCCLCannotRead(t *testing.T) {
	many := NewElement("cpu")
	for range MaxChildren + 1 {
		many.Add(NewElement("pci"))
	}
	for name, e := range map[string]*Element{
		"both quotes": NewElement("net", "name", `"'`),
		"long value":  NewElement("net", "name", strings.Repeat("x", MaxText+1)),
		"children":    many,
	} {
		if err := (&Document{Root: e}).Write(&bytes.Buffer{}); err == nil {
			t.Errorf("%s: written", name)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`<system version="1"><cpu numaid="0"><pci busid="0000:01:00.0" =""/></cpu></system>`))
	f.Add([]byte(`<!--x--><system version='1'><cpu/></system>`))
	f.Fuzz(func(t *testing.T, src []byte) {
		doc, err := Read("f.xml", bytes.NewReader(src))
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		if err := doc.Write(&first); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := Read("f.xml", bytes.NewReader(first.Bytes()))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, first.Bytes())
		}
		if err := again.Write(&second); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatalf("written twice, differs (%v):\n%s\n%s", err, first.Bytes(), second.Bytes())
		}
	})
}

// hostileXML has no graph that takes long: that is bounded by MaxNodes, as in NCCL.
var hostileXML = []hostile.Text{
	{Head: "<system version='1'>", Unit: "<x>"},
	{Head: "<system version='1'>", Unit: "<x/>", Tail: "</system>"},
	{Head: "<system version='1'><cpu>", Unit: "<pci/>", Tail: "</cpu></system>"},
	{Head: "<system version='1'>", Unit: "<!---->", Tail: "</system>"},
	{Head: "<system version='1'>", Unit: "<!--"},
	{Head: "<system version='1' ", Unit: "a='%d' ", Tail: "/>"},
	{Head: "<system version='1' ", Unit: ` =""`},
	{Head: "<system version='", Unit: "1"},
	{Unit: "<system version='1'/>\n"},
}

func BenchmarkWorstRead(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		_, err := Read("f.xml", bytes.NewReader(text))
		return err
	}, hostileXML...)
}
