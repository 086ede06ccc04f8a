package topo

import (
	"strings"
	"testing"
)

// A label is short and leads back to its node, also where a machine gives its CPU no NUMA number.
func TestLabels(t *testing.T) {
	const file = `<system version="1">
<cpu host_hash="0x1" numaid="3" arch="arm64">
<pci busid="0000:01:00.0" class="0x030200"><gpu rank="0" dev="0" sm="90" gdr="1"/></pci>
<nic><net dev="0"/><net dev="1" name="mlx5_1"/></nic>
</cpu>
<cpu host_hash="0x2" numaid="-1" arch="arm64"/>
</system>`
	doc, err := Read("f.xml", strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	s := build(t, doc)
	for label, name := range map[string]string{
		"gpu0": "GPU/0-1000", "0/net0": "NET/0-0", "0/mlx5_1": "NET/0-1", "0/cpu3": "CPU/0-3",
		"1/cpu": "CPU/1-ffffffffffffff",
	} {
		n, err := s.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Label(n); got != label {
			t.Errorf("%s is called %q, want %q", name, got, label)
		}
		if found, err := s.Find(label); found != n || err != nil {
			t.Errorf("%q is not found (%v)", label, err)
		}
	}
}
