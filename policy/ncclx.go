package policy

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// The tuner in NCCLX has rules of its own: CSV without a header, whose intervals have commas without quotes, or JSON.
// Sources are named in docs/dev/NCCL.md.

// ncclxColumns are the columns of its CSV. They are set before the first file is read, because some of them are found
// by name.
var ncclxColumns = header{
	columnNamed("collective"),
	{name: "bytesPerRank", needed: true, of: func(r *row) *field { return &r.BytesPerRank }, read: readBytesPerRank},
	columnNamed("algorithm"),
	columnNamed("protocol"),
	columnNamed("channels"),
	{name: "nNodes", needed: true, of: func(r *row) *field { return &r.NNodes }, read: readCount("nNodes", Nodes)},
	{name: "nLocalRanks", needed: true, of: func(r *row) *field { return &r.NLocalRanks },
		read: readCount("nLocalRanks", RanksPerNode)},
	{name: "chunkSize", of: func(r *row) *field { return &r.ChunkSize }, read: readChunkSize},
}

var (
	// ncclxRow is how a row begins that only NCCLX's tuner can read.
	ncclxRow = regexp.MustCompile(`(?m)^[ \t]*\w+[ \t]*,[ \t]*"?([\[(]|\*[ \t]*,[ \t]*(` +
		strings.Join(nccl.Algos.Known, "|") + `)\b)`)
	unquoted = regexp.MustCompile(`[ \t]*"?([\[(][^\[\]()"\n]*[\])])"?[ \t]*`)
	interval = regexp.MustCompile(`^([\[(])\s*(\d*)\s*,\s*(\d*)\s*([\])])$`)
)

// rulesAsCSV returns rules in JSON as CSV with ncclxColumns. Each stands on the line on which it begins, or on the next
// one that is free.
func (r *reader) rulesAsCSV(data []byte) []byte {
	in := json.NewDecoder(bytes.NewReader(data))
	in.UseNumber()
	in.DisallowUnknownFields()
	for _, begin := range []json.Token{json.Delim('{'), "rules", json.Delim('[')} {
		if token, err := in.Token(); err != nil || token != begin {
			r.fail(1, 0, errors.New(`the file is JSON (allowed: a policy in CSV, or NCCLX's {"rules": [...]}; a cost `+
				`model is named by NCCL_TUNER_MODEL_FILE, or --model)`))
			return nil
		}
	}
	r.header, r.json = ncclxColumns, true
	line, read := 1, 0
	lineAt := func(offset int64) int {
		line, read = line+bytes.Count(data[read:offset], []byte("\n")), int(offset)
		return line
	}
	var table bytes.Buffer
	out, written := csv.NewWriter(&table), 0
	for in.More() && !r.full() {
		at := in.InputOffset()
		begins := lineAt(at + int64(max(0, bytes.IndexByte(data[at:], '{'))))
		var rule struct{ Filter, Config map[string]any }
		if err := in.Decode(&rule); err != nil {
			r.fail(begins, 0, fmt.Errorf(`the rule that begins here: %w (needed: {"filter": {...}, "config": {...}})`,
				wording.JSONError(err)))
			return nil
		}
		fields := r.ruleFields(begins, rule.Filter, rule.Config)
		table.WriteString(strings.Repeat("\n", max(begins-1-written, 0)))
		_ = out.Write(fields) // into memory
		out.Flush()
		written = max(begins, written+1)
	}
	for _, end := range []json.Token{json.Delim(']'), json.Delim('}'), nil} {
		if token, err := in.Token(); token != end || end == nil && err != io.EOF {
			r.fail(lineAt(in.InputOffset()), 0, errors.New(`more than rules (allowed: {"rules": [...]})`))
			break
		}
	}
	return table.Bytes()
}

// ruleFields returns the fields of a rule in the order of ncclxColumns.
func (r *reader) ruleFields(line int, filter, config map[string]any) []string {
	fields := make([]string, len(ncclxColumns))
	take := func(from map[string]any, object string, columns ...string) {
		for _, key := range slices.Sorted(maps.Keys(from)) {
			text := fmt.Sprint(from[key])
			_, isText := from[key].(string)
			_, isNumber := from[key].(json.Number)
			switch {
			case !slices.Contains(columns, key):
				r.fail(line, 0, fmt.Errorf("unknown key %s in %s (%sallowed: %s)", wording.Quote(key), object,
					wording.DidYouMean(key, columns), strings.Join(columns, ", ")))
			case !isText && !isNumber, strings.ContainsAny(text, "#\"\r\n"):
				r.fail(line, 0, fmt.Errorf("%s is %s (allowed: a number, or a text in quotes)", key,
					wording.Quote(text)))
			default:
				fields[ncclxColumns.columnNumber(key)-1] = text
			}
		}
	}
	take(filter, "filter", "collective", "bytesPerRank", "nNodes", "nLocalRanks")
	take(config, "config", "algorithm", "protocol", "channels", "chunkSize")
	for _, key := range []string{"collective", "algorithm", "protocol"} {
		if strings.TrimSpace(fields[ncclxColumns.columnNumber(key)-1]) == "" {
			r.fail(line, 0, fmt.Errorf("the rule has no %s", key))
		}
	}
	return fields
}

// readRange reads a whole number, or an interval of such.
func readRange(name, text string, least uint64) (nccl.Range, error) {
	part := interval.FindStringSubmatch(text)
	if part == nil {
		part = []string{"", "[", text, text, "]"}
	}
	r := nccl.EverySize
	for i, end := range []*uint64{&r.Min, &r.Max} {
		digits := part[2+i]
		if digits == "" {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 0 {
			return r, fmt.Errorf("%s is %s (allowed: a whole number, an interval of such as [2,8], (1,8) or (1,), or "+
				"*)", name, wording.Quote(text))
		}
		*end = uint64(n)
	}
	if part[1] == "(" && part[2] != "" {
		r.Min++
	}
	switch {
	case part[4] != ")" || part[3] == "":
	case r.Max == 0:
		r.Min = nccl.Inf // nothing lies below 0
	default:
		r.Max--
	}
	if r.Min > r.Max || r.Max < least {
		return r, fmt.Errorf("%s is %s: the row matches nothing", name, wording.Quote(text))
	}
	return r, nil
}

func readBytesPerRank(_ *reader, text string, to *Rule) error {
	sizes, err := readRange("bytesPerRank", text, 0)
	if err == nil {
		to.BytesPerRank = sizes
	}
	return err
}

// readCount reads which values of a number a rule wants: one, or an interval, which becomes a condition.
func readCount(name string, n Number) func(*reader, string, *Rule) error {
	return func(r *reader, text string, to *Rule) error {
		want, err := readRange(name, text, 1)
		switch {
		case err != nil:
			return err
		case want.Min == want.Max && want.Max <= maxNumber:
			to.Numbers[n] = int32(want.Min)
			return nil
		}
		condition := fmt.Sprintf("%s >= %d", n, want.Min)
		if want.Max != nccl.Inf {
			condition += fmt.Sprintf(" && %s <= %d", n, want.Max)
		}
		if to.When != nil {
			condition = to.When.String() + " && " + condition
		}
		return readWhen(r, condition, to)
	}
}

func readChunkSize(r *reader, text string, to *Rule) error {
	if text == "0" { // NCCLX's word for none
		return nil
	}
	return readChunkBytes(r, text, to)
}
