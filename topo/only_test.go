package topo

import (
	"bytes"
	"strings"
	"testing"
)

// Two switches: GPU 0 and a NIC below the first, GPUs 1 and 2 below the second, GPU 3 below a third one.
const switches = `<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="17">
    <pci busid="0000:01:00.0" class="0x060400">
      <pci busid="0000:02:00.0" class="0x030200">
        <gpu dev="0" sm="90" rank="0" gdr="1"/>
      </pci>
      <pci busid="0000:03:00.0" class="0x020700">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x1" maxconn="131072" gdr="1"/>
        </nic>
      </pci>
    </pci>
    <pci busid="0000:04:00.0" class="0x060400">
      <pci busid="0000:05:00.0" class="0x030200">
        <gpu dev="1" sm="90" rank="1" gdr="1"/>
      </pci>
      <pci busid="0000:06:00.0" class="0x030200">
        <gpu dev="2" sm="90" rank="2" gdr="1"/>
      </pci>
    </pci>
    <pci busid="0000:07:00.0" class="0x060400">
      <pci busid="0000:08:00.0" class="0x030200">
        <gpu dev="3" sm="90" rank="3" gdr="1"/>
      </pci>
    </pci>
  </cpu>
</system>
`

// What is left of the file for some GPUs: switches that hold a GPU or a NIC of them, and in the order in which ranks
// bring them in.
func TestOnly(t *testing.T) {
	for _, c := range []struct {
		devs []int
		want string // the devices in the order of the file, GPUs with their ranks
	}{
		{[]int{0, 1, 2, 3}, "01 02=0 03 04 05=1 06=2 07 08=3"},
		{[]int{0, 1}, "01 02=0 03 04 05=1"},
		{[]int{2, 1}, "01 03 04 06=0 05=1"},
		{[]int{3, 0}, "01 03 02=1 07 08=0"},
	} {
		doc, err := Read("switches.xml", strings.NewReader(switches))
		if err != nil {
			t.Fatal(err)
		}
		only, err := doc.Only(c.devs)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for e := range only.Root.All() {
			switch busID, _ := e.Attr("busid"); {
			case e.Name == "pci":
				got = append(got, busID[5:7])
			case e.Name == "gpu":
				rank, _ := e.Attr("rank")
				got[len(got)-1] += "=" + rank
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("GPUs %v: %s, want %s", c.devs, strings.Join(got, " "), c.want)
		}
		var text bytes.Buffer
		if err := doc.Write(&text); err != nil || text.String() != switches {
			t.Errorf("GPUs %v: the whole file is now %v\n%s", c.devs, err, text.String())
		}
	}
}

func TestOnlyRefuses(t *testing.T) {
	for _, c := range []struct {
		dev   int
		twice bool
		want  string
	}{
		{4, false, "switches.xml: there is no GPU 4 (GPUs: 0, 1, 2, 3)"},
		{1, true, "switches.xml: more than one GPU has the number 1, so numbers name no GPUs"},
	} {
		text := switches
		if c.twice {
			text = strings.Replace(text, `dev="2"`, `dev="1"`, 1)
		}
		doc, err := Read("switches.xml", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := doc.Only([]int{c.dev}); err == nil || err.Error() != c.want {
			t.Errorf("GPU %d: error %v, want %q", c.dev, err, c.want)
		}
	}
}
