package when

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// A condition sees only what all ranks of a communicator find alike.
const (
	nameColl         = "coll"
	nameBytes        = "bytes"
	nameBytesPerRank = "bytes_per_rank"
	namePipeOps      = "pipe_ops"
	nameNodes        = "nodes"
	nameRanks        = "ranks"
	nameRanksPerNode = "ranks_per_node"
	nameNVLDomains   = "nvl_domains"

	topoPrefix = "topo."
)

// variable is a name that a condition may use.
type variable struct {
	zero    any         // a value of its type: int, float64, bool or string
	perCall bool        // it differs between the calls of one communicator
	texts   *textValues // what a string can be
	field   int         // in topo.Summary, for the names that begin with topoPrefix
}

// textValues are the values that a string can have.
type textValues struct {
	known      []string
	bySpelling map[string]string // in lower case
}

// variables are all names but the constants, in the order of inOrder.
var variables, inOrder = func() (map[string]variable, []string) {
	colls := textValues{nccl.Colls.Known, map[string]string{}}
	for spelling, c := range nccl.Colls.Spellings() {
		colls.bySpelling[spelling] = c.String()
	}
	known := map[string]variable{}
	var order []string
	add := func(name string, n variable) {
		known[name] = n
		order = append(order, name)
	}
	add(nameColl, variable{zero: "", perCall: true, texts: &colls})
	for _, name := range []string{nameBytes, nameBytesPerRank, namePipeOps} {
		add(name, variable{zero: 0, perCall: true})
	}
	for _, name := range []string{nameNodes, nameRanks, nameRanksPerNode, nameNVLDomains} {
		add(name, variable{zero: 0})
	}
	texts := topo.SummaryTexts()
	summary := reflect.TypeFor[topo.Summary]()
	for i := range summary.NumField() {
		tag := summary.Field(i).Tag.Get("expr")
		n := variable{zero: reflect.Zero(summary.Field(i).Type).Interface(), field: i}
		if values, ok := texts[tag]; ok {
			n.texts = &textValues{values, map[string]string{}}
			for _, text := range values {
				n.texts.bySpelling[strings.ToLower(text)] = text
			}
		}
		add(topoPrefix+tag, n)
	}
	return known, order
}()

// constants are numbers of bytes. As all names they are known in any case.
var constants = map[string]int{"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}

// unknownName is the error for a name that a condition may not use.
func unknownName(got string) error {
	hint := suggest.DidYouMean(got, append(slices.Clone(inOrder), "kib", "mib", "gib"))
	allowed := append(slices.Clone(inOrder), "KiB", "MiB", "GiB")
	inTopo := func(name string) bool { return strings.HasPrefix(name, topoPrefix) }
	if got+"." == topoPrefix {
		return fmt.Errorf("topo is no value (allowed: %s)", strings.Join(slices.DeleteFunc(allowed, not(inTopo)), ", "))
	}
	if inTopo(got) {
		allowed = slices.DeleteFunc(allowed, not(inTopo))
	} else {
		allowed = append(slices.DeleteFunc(allowed, inTopo), "topo.gpus and the like")
	}
	return fmt.Errorf("unknown name %s (%sallowed: %s)", suggest.Quote(got), hint, strings.Join(allowed, ", "))
}

func not(is func(string) bool) func(string) bool { return func(s string) bool { return !is(s) } }

// textNames lists the names of texts.
func textNames() (texts []string) {
	for _, name := range inOrder {
		if variables[name].texts != nil {
			texts = append(texts, name)
		}
	}
	return texts
}

// text returns the canonical spelling of a value that the name can have.
func (n variable) text(name, got string) (string, error) {
	text, ok := n.texts.bySpelling[strings.ToLower(got)]
	if !ok {
		return "", fmt.Errorf("%s is never %s (%sallowed: %s)", name, suggest.Quote(got),
			suggest.DidYouMean(got, slices.Sorted(maps.Keys(n.texts.bySpelling))), strings.Join(n.texts.known, ", "))
	}
	return text, nil
}

func quoted(texts []string) []string {
	q := make([]string, len(texts))
	for i, s := range texts {
		q[i] = strconv.Quote(s)
	}
	return q
}
