package mesh

import (
	"strings"
	"testing"
)

func TestReadMeshSaysWhatIsWrong(t *testing.T) {
	const header = "node,nic,address,gbit_s\n"
	tests := []struct{ name, file, want string }{
		{"empty", "", "mesh.csv:1:1: no header (needed: node,nic,address,gbit_s)"},
		{"header only", header, "mesh.csv: no rows below the header"},
		{"misspelt column", "node,nic,adress,gbit_s\n",
			`mesh.csv:1:10: unknown column "adress" (did you mean "address"; allowed: node, nic, address, gbit_s)`},
		{"strange column", "node,nic,colour,gbit_s\n",
			`mesh.csv:1:10: unknown column "colour" (allowed: node, nic, address, gbit_s)`},
		{"missing column", "node,nic,gbit_s\n", `mesh.csv:1:1: no column address (needed: node, nic, address, gbit_s)`},
		{"twice", "node,nic,node,gbit_s\n", `mesh.csv:1:10: column node stands twice`},
		{"short row", header + "a,p0,10.0.0.1/30\n", "mesh.csv:2:1: 3 fields (needed: 4, as in the header)"},
		{"no mask", header + "a,p0,10.0.0.1,100\n",
			`mesh.csv:2:6: address: "10.0.0.1" has no mask (needed: one, as in 192.168.101.1/24)`},
		{"bad address", header + "a, p0, 10.0.0.256/30, 100\n", `mesh.csv:2:8: address: "10.0.0.256" is no IP address`},
		{"long mask", header + "a,p0,10.0.0.1/33,100\n",
			`mesh.csv:2:6: address: "33" is no mask of 10.0.0.1 (allowed: 1 to 32)`},
		{"mask with a gap", header + "a,p0,10.0.0.1/255.0.255.0,100\n",
			"mesh.csv:2:6: address: mask 255.0.255.0 has a gap"},
		{"no mask at all", header + "a,p0,10.0.0.1/0.0.0.0,100\n",
			"mesh.csv:2:6: address: mask 0.0.0.0 takes all addresses for one subnet"},
		{"subnet", header + "a,p0,10.0.0.0/24,100\n",
			"mesh.csv:2:6: address: 10.0.0.0/24 is the subnet itself (needed: the address of the port)"},
		{"no rate", header + "a,p0,10.0.0.1/30,fast\n",
			`mesh.csv:2:18: gbit_s: "fast" is no rate in Gbit/s (allowed: a number above 0, as 100)`},
		{"rate 0", header + "a,p0,10.0.0.1/30,0\n", `"0" is no rate`},
		{"rate NaN", header + "a,p0,10.0.0.1/30,NaN\n", `"NaN" is no rate`},
		{"same port", header + "a,p0,10.0.0.1/30,1\n# more\na,p0,10.0.0.5/30,1\n",
			"mesh.csv:4:3: nic: p0 of a is already in line 2"},
		{"same address", header + "a,p0,10.0.0.1/30,1\nb,p0,10.0.0.1/30,1\n",
			"mesh.csv:3:6: address: 10.0.0.1 is already in line 2"},
		{"no node", header + ",,10.0.0.1/30,1\n", "mesh.csv:2:1: node: no name"},
		{"open quote", header + "a,\"p0,10.0.0.1/30,1\n", `mesh.csv:2:21: extraneous or missing " in quoted-field`},
		{"switch", header + "a,p0,10.0.0.1/24,1\nb,p0,10.0.0.2/24,1\nc,p0,10.0.0.3/24,1\n",
			"mesh.csv: subnet 10.0.0.0/24 joins 3 nodes (a, b, c), but a direct link joins two"},
		{"unequal masks", header + "a,p0,10.0.0.1/24,1\nb,p0,10.0.0.2/30,1\n",
			"mesh.csv: subnets 10.0.0.0/24 (a) and 10.0.0.0/30 (b) overlap: the masks of a link must be the same at " +
				"both ends"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read("mesh.csv", strings.NewReader(tt.file))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v\nwant  %s", err, tt.want)
			}
		})
	}
}

func TestReadMeshReportsAllErrors(t *testing.T) {
	file := "node,nic,address,gbit_s\n" + strings.Repeat("a,p0,10.0.0.1,none\n", 30)
	_, err := Read("mesh.csv", strings.NewReader(file))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 20 {
		t.Errorf("%d errors, want 20", len(lines))
	}
	if !strings.HasPrefix(lines[0], "mesh.csv:2:6: ") {
		t.Errorf("first error %s", lines[0])
	}
}
