package mesh

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// columns are the columns of a mesh file, all required.
var columns = []string{"node", "nic", "address", "gbit_s"}

// Limits of a mesh file.
const (
	maxNodes  = 512
	maxErrors = 20 // reported of one file
	maxBytes  = 1 << 20
	maxGbit   = 1e6
)

// Read reads a mesh, one port in a row; name is the file's name for messages.
//
//	node,nic,address,gbit_s
//	a,mlx5_0,192.168.101.1/24,100
//	b,mlx5_0,192.168.101.2/255.255.255.0,100
//
// The header names the columns, in any order. address is the port's own IPv4 or IPv6 address with the mask of its subnet, in
// bits or spelled out; gbit_s is the rate of the port in Gbit/s (1e9 bit/s). Blanks around values and lines that start
// with # are ignored.
//
// The error joins up to maxErrors errors of type *SyntaxError, in the order of the file.
func Read(name string, r io.Reader) (*Mesh, error) {
	src, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(src) > maxBytes {
		return nil, &topo.SyntaxError{File: name, Line: 1, Msg: fmt.Sprintf("file is larger than %d bytes", maxBytes)}
	}
	p := &parser{file: name, nics: make(map[string]int), addresses: make(map[netip.Addr]int)}
	p.csv = csv.NewReader(bytes.NewReader(bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))))
	p.csv.Comment = '#'
	p.csv.FieldsPerRecord = -1
	p.csv.TrimLeadingSpace = true
	p.rows()
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs[:min(len(p.errs), maxErrors)]...)
	}
	m, err := newMesh(p.nodes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

type parser struct {
	file      string
	csv       *csv.Reader
	column    map[string]int // of the row, by name
	row       []string
	nodes     []Node
	nics      map[string]int // line of node and port
	addresses map[netip.Addr]int
	errs      []error
}

// fail notes an error at a field of the row, by its index.
func (p *parser) fail(field int, format string, args ...any) {
	line, column := p.csv.FieldPos(field)
	p.failAt(line, column, format, args...)
}

func (p *parser) failAt(line, column int, format string, args ...any) {
	p.errs = append(p.errs, &topo.SyntaxError{File: p.file, Line: line, Column: column, Msg: fmt.Sprintf(format, args...)})
}

func (p *parser) line() int {
	line, _ := p.csv.FieldPos(0)
	return line
}

func (p *parser) rows() {
	for len(p.errs) < maxErrors {
		row, err := p.csv.Read()
		var bad *csv.ParseError
		switch {
		case err == io.EOF:
			if p.column == nil {
				p.failAt(1, 1, "no header (want %s)", strings.Join(columns, ","))
			} else if len(p.nodes) == 0 {
				p.failAt(p.line(), 0, "no port below the header")
			}
			return
		case errors.As(err, &bad):
			p.failAt(bad.Line, bad.Column, "%v", bad.Err)
			return
		case err != nil:
			p.errs = append(p.errs, fmt.Errorf("%s: %w", p.file, err))
			return
		}
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		p.row = row
		if p.column == nil {
			if p.header(); len(p.errs) > 0 {
				return
			}
			continue
		}
		p.port()
	}
}

func (p *parser) header() {
	p.column = make(map[string]int)
	for i, name := range p.row {
		name = strings.ToLower(name)
		switch {
		case !slices.Contains(columns, name):
			p.fail(i, "unknown column %q (%sallowed: %s)", name, suggest.DidYouMean(name, columns), strings.Join(columns, ", "))
		case p.has(name):
			p.fail(i, "column %q appears twice", name)
		default:
			p.column[name] = i
		}
	}
	for _, name := range columns {
		if len(p.errs) == 0 && !p.has(name) {
			p.fail(0, "no column %q (want %s)", name, strings.Join(columns, ", "))
		}
	}
}

func (p *parser) has(column string) bool {
	_, ok := p.column[column]
	return ok
}

// port reads one row.
func (p *parser) port() {
	if len(p.row) != len(p.column) {
		p.fail(0, "%d fields, want %d", len(p.row), len(p.column))
		return
	}
	field := func(name string) (int, string) { i := p.column[name]; return i, p.row[i] }
	before := len(p.errs)

	nodeField, node := field("node")
	if node == "" {
		p.fail(nodeField, "node has no name")
	}
	nicField, nic := field("nic")
	if nic == "" {
		p.fail(nicField, "nic has no name")
	}
	key := node + "\x00" + nic
	if line, ok := p.nics[key]; ok && nic != "" {
		p.fail(nicField, "%s of %s is already in line %d", nic, node, line)
	}
	p.nics[key] = p.line()

	addressField, text := field("address")
	address, err := parseAddress(text)
	if err != nil {
		p.fail(addressField, "%v", err)
	} else if line, ok := p.addresses[address.Addr()]; ok {
		p.fail(addressField, "address %s is already in line %d", address.Addr(), line)
	} else {
		p.addresses[address.Addr()] = p.line()
	}

	rateField, text := field("gbit_s")
	gbit, err := strconv.ParseFloat(text, 64)
	if err != nil || !(gbit > 0 && gbit <= maxGbit) {
		p.fail(rateField, "%q is no rate in Gbit/s (allowed: a number above 0, as 100)", text)
	}
	if len(p.errs) > before {
		return
	}
	i := slices.IndexFunc(p.nodes, func(n Node) bool { return n.Name == node })
	if i < 0 {
		if len(p.nodes) == maxNodes {
			p.fail(nodeField, "more than %d nodes", maxNodes)
			return
		}
		i = len(p.nodes)
		p.nodes = append(p.nodes, Node{Name: node})
	}
	const bitsPerByte = 8
	p.nodes[i].NICs = append(p.nodes[i].NICs, NIC{Name: nic, Address: address, GBps: gbit / bitsPerByte})
}
