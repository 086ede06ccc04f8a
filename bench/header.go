package bench

import (
	"bytes"
	"slices"
	"strconv"
)

// header takes a line of a run's header or last lines. It reports whether it was
// one.
func (t *text) header(line []byte) bool {
	body := bytes.TrimLeft(line, "# \t")
	switch {
	case bytes.HasPrefix(body, []byte("nccl-tests version")), bytes.HasPrefix(body, []byte("NCCL Tests compiled")):
		t.fresh(t.run.header || t.run.footer || t.run.columns.known)
	case bytes.HasPrefix(body, []byte("tunefit sweep ")):
		return t.marked(body)
	case bytes.HasPrefix(body, []byte("Collective test starting:")):
		t.fresh(t.run.program != "" || t.run.header)
		t.run.program = string(bytes.TrimSpace(body[len("Collective test starting:"):]))
	case bytes.HasPrefix(body, []byte("nThread ")):
		t.fresh(t.run.header || t.run.columns.known)
		t.run.header = true
		t.run.headers++
		t.run.mentions.join(t.said.take())
		t.run.line = t.line
		t.settings(body)
	case bytes.HasPrefix(body, []byte("Using devices")):
		t.fresh(t.run.devices.ranks != nil || t.run.columns.known)
	case bytes.HasPrefix(body, []byte("Rank ")):
		return t.device(body)
	case bytes.HasPrefix(body, []byte("Reducing maxBytes")):
		t.r.note(t.line, "%s", quoted(body))
	case bytes.HasPrefix(body, []byte("Out of bounds values")):
		t.flush()
		t.run.failed = bytes.HasSuffix(bytes.TrimSpace(body), []byte("FAILED"))
		t.run.footer = len(t.run.rows) > 0
		t.run.footers++
	case bytes.HasPrefix(body, []byte("Avg bus bandwidth")), bytes.HasPrefix(body, []byte("Collective test concluded")):
		t.flush()
		t.run.footer = len(t.run.rows) > 0
	case bytes.HasPrefix(body, []byte("Blocking Enabled")):
		t.run.Blocking = 1
		t.r.note(t.line, "times include waiting after each operation (-z)")
	default:
		return t.names(line)
	}
	return true
}

// settings reads "nThread 1 nGpus 8 minBytes 8 ... graph: 0".
func (t *text) settings(body []byte) {
	words := tokensOf(body, t.tokens[:])
	var s settings
	var first, last uint64
	for i := 0; i+1 < len(words); i++ {
		switch value := words[i+1]; string(words[i]) {
		case "minBytes":
			first, _ = strconv.ParseUint(string(value), 10, 64)
		case "maxBytes":
			last, _ = strconv.ParseUint(string(value), 10, 64)
		case "step:":
			t.run.sizes = stepsOf(first, last, string(value))
		case "nThread":
			s.Threads = atoi(value)
		case "nGpus":
			s.GPUs = atoi(value)
		case "iters:":
			switch string(words[max(i, 1)-1]) {
			case "warmup":
				s.WarmUp = atoi(value)
			case "agg":
				s.Aggregated = atoi(value)
			default:
				s.Iterations = atoi(value)
			}
		case "unalign:":
			s.Skew = atoi(value)
		case "graph:":
			s.Graph = atoi(value)
		}
	}
	t.run.set(t.r, t.line, s)
	if bytes.Contains(body, []byte("side_work: 1")) {
		t.r.note(t.line, "other work ran beside the operations")
	}
}

// device reads "Rank  0 Group  0 Pid   12 on   HOST device  0 [...] NAME". Group
// and Pid came with later versions.
func (t *text) device(body []byte) bool {
	words := tokensOf(body, t.tokens[:12])
	on := slices.IndexFunc(words, func(w []byte) bool { return string(w) == "on" })
	if on < 2 || on+3 >= len(words) || string(words[on+2]) != "device" || !isNumber(words[1]) {
		return false
	}
	group := "0"
	if string(words[2]) == "Group" {
		group = string(words[3])
	}
	if t.run.inherited || len(t.run.rows) > 0 {
		t.fresh(true)
	}
	host, process := string(words[on+1]), ""
	if string(words[on-2]) == "Pid" {
		process = host + ":" + string(words[on-1])
	}
	t.hosts[host] = true
	address, name, _ := bytes.Cut(body[bytes.IndexByte(body, '[')+1:], []byte("] "))
	t.run.devices.add(group, string(words[1]), host, process, string(words[on+3])+" "+string(address))
	t.run.metadata.gpu(string(name))
	t.join(process)
	return true
}

// names reads the line that names the columns, and the one above it that names
// the halves.
func (t *text) names(line []byte) bool {
	if !bytes.Contains(line, []byte("time")) {
		if bytes.Contains(line, []byte("in-place")) && line[0] == '#' {
			t.fresh(t.run.columns.known)
			t.run.columns.inPlaceOnly = !bytes.Contains(line, []byte("out-of-place"))
		}
		return false
	}
	c, ok := headerColumns(tokensOf(line, t.tokens[:]))
	if !ok {
		return false
	}
	t.fresh(t.run.columns.known)
	c.inPlaceOnly = t.run.columns.inPlaceOnly && c.halves == 1
	t.run.columns = c
	return true
}
