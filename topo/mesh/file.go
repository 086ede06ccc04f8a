package mesh

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/csvtable"
)

// columnNames are the columns of a mesh file, all required.
var columnNames = []string{"node", "nic", "address", "gbit_s"}

// Limits of a mesh file.
const (
	maxNodes = 512
	maxBytes = 1 << 20
	maxGbit  = 1e6
)

// Read reads a mesh, one port in a row; name is the file's name for messages.
//
//	node,nic,address,gbit_s
//	a,mlx5_0,192.168.101.1/24,100
//	b,mlx5_0,192.168.101.2/255.255.255.0,100
//
// The header names the columns, in any order. address is the port's own IPv4 or IPv6 address with the mask of its
// subnet, in bits or spelled out; gbit_s is the rate of the port in Gbit/s (1e9 bit/s). Blanks around values and
// lines that start with # are ignored.
//
// The error joins up to 20 errors, in the order of the file.
func Read(name string, r io.Reader) (*Mesh, error) {
	src, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(src) > maxBytes {
		return nil, fmt.Errorf("%s: file is larger than %d bytes", name, maxBytes)
	}
	t, err := csvtable.Read(name, strings.TrimPrefix(string(src), "\ufeff"), 0, columnNames, len(columnNames))
	if err != nil {
		return nil, err
	}
	p := &parser{Table: t, nics: make(map[string]int), addresses: make(map[netip.Addr]int)}
	for p.Next() {
		p.port()
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	m, err := newMesh(p.nodes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

type parser struct {
	*csvtable.Table
	nodes     []Node
	nics      map[string]int // line of node and port
	addresses map[netip.Addr]int
}

// port reads one row.
func (p *parser) port() {
	before := p.Failures()
	node, nic := p.Field("node"), p.Field("nic")
	if node == "" {
		p.Fail("node", "no name")
	}
	if nic == "" {
		p.Fail("nic", "no name")
	}
	key := node + "\x00" + nic
	if line, ok := p.nics[key]; ok && nic != "" {
		p.Fail("nic", "%s of %s is already in line %d", nic, node, line)
	}
	p.nics[key] = p.Line()
	address, err := parseAddress(p.Field("address"))
	if err != nil {
		p.Fail("address", "%v", err)
	} else if line, ok := p.addresses[address.Addr()]; ok {
		p.Fail("address", "%s is already in line %d", address.Addr(), line)
	} else {
		p.addresses[address.Addr()] = p.Line()
	}
	gbit, err := strconv.ParseFloat(p.Field("gbit_s"), 64)
	if err != nil || !(gbit > 0 && gbit <= maxGbit) {
		p.Fail("gbit_s", "%q is no rate in Gbit/s (allowed: a number above 0, as 100)", p.Field("gbit_s"))
	}
	if p.Failures() > before {
		return
	}
	i := slices.IndexFunc(p.nodes, func(n Node) bool { return n.Name == node })
	if i < 0 {
		if len(p.nodes) == maxNodes {
			p.Fail("node", "more than %d nodes", maxNodes)
			return
		}
		i = len(p.nodes)
		p.nodes = append(p.nodes, Node{Name: node})
	}
	const bitsPerByte = 8
	p.nodes[i].NICs = append(p.nodes[i].NICs, NIC{Name: nic, Address: address, GBps: gbit / bitsPerByte})
}
