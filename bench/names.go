package bench

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unique"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// operation is what a run measured: one of the collectives that a tuner is
// asked about, or another.
type operation string // folded name; empty: not known

// collByName holds what nccl-tests can measure. -1 is an operation that NCCL asks no tuner about.
var collByName = func() map[string]nccl.Coll {
	m := map[string]nccl.Coll{}
	for _, c := range nccl.AllColls() {
		m[c.String()] = c
	}
	for _, other := range []string{"alltoall", "alltoallv", "sendrecv", "scatter", "gather", "hypercube"} {
		m[other] = -1
	}
	return m
}()

// longestQuote bounds what is quoted of a log.
const longestQuote = 240

func quoted(text []byte) string {
	text = bytes.TrimSpace(text)
	if len(text) > longestQuote {
		text = append(text[:longestQuote:longestQuote], "..."...)
	}
	return strings.ToValidUTF8(string(text), "?")
}

// noLabel is a configuration that is not known at all.
var noLabel = nccl.Config{Cell: nccl.NoCell}

// fold removes what differs between the spellings of one name.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '_', '-', ' ':
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// CellNamed reads the names of an algorithm and a protocol as logs print them, or the numbers of older ones. A name
// that it does not know, such as that of a symmetric kernel, becomes Unknown.
func CellNamed(algo, proto string) nccl.Cell {
	return nccl.Cell{Algo: algoNamed(algo), Proto: parseLabel(nccl.Protos, proto)}
}

func algoNamed(s string) nccl.Algo {
	if strings.EqualFold(s, "collnet") { // its only kind before NCCL 2.14
		return nccl.AlgoCollNetDirect
	}
	return parseLabel(nccl.Algos, s)
}

func parseLabel[T nccl.Algo | nccl.Proto](names nccl.Names[T], s string) T {
	if v, ok := names.Named(s); ok {
		return v
	}
	if n, err := strconv.Atoi(s); err == nil && n >= 0 && n < len(names.Known) {
		return T(n)
	}
	if v, ok := names.Named(fold(s)); ok {
		return v
	}
	return Unknown
}

func isNumber(s []byte) bool { return len(bytes.TrimLeft(s, "0123456789")) == 0 }

// tokensOf splits a line at blanks into at most len(into) tokens.
func tokensOf(line []byte, into [][]byte) [][]byte {
	n := 0
	for token := range bytes.FieldsSeq(line) {
		if n == len(into) {
			break
		}
		into[n] = token
		n++
	}
	return into[:n]
}

// isTime reports whether a token can begin the rest of a row.
func isTime(t []byte) bool {
	_, err := strconv.ParseFloat(string(t), 64)
	return err == nil || string(t) == "N/A"
}

func isWord(t []byte) bool {
	return len(t) > 0 && (t[0] >= 'a' && t[0] <= 'z' || t[0] >= 'A' && t[0] <= 'Z')
}

// bandwidth reads one; 0: it is not known.
func bandwidth(t string) float64 {
	v, err := strconv.ParseFloat(t, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0
	}
	return v
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// kept returns the one copy of a word that many rows have.
func kept(word string) string { return unique.Make(word).Value() }

func programOperation(program string) operation {
	name, _, _ := strings.Cut(program, "_perf")
	return operation(fold(name))
}

// elementSize is the bytes of each data type.
var elementSize = map[string]uint64{
	"int8": 1, "char": 1, "uint8": 1, "int32": 4, "int": 4, "uint32": 4, "int64": 8, "uint64": 8,
	"half": 2, "float": 4, "double": 8, "bfloat16": 2, "f8e4m3": 1, "f8e5m2": 1, "fp8_e4m3": 1, "fp8_e5m2": 1,
}

// TrimUnit is the unit, in bytes, that nccl-tests rounds sizes down to. It is an element, or 16 bytes for each rank
// where each rank has a part of the data (getCollByteCount in src/all_gather.cu and src/reduce_scatter.cu, 2.0 to
// 2.18).
func TrimUnit(coll nccl.Coll, ranks int) uint64 {
	if coll == nccl.CollAllGather || coll == nccl.CollReduceScatter {
		return 16 * uint64(ranks)
	}
	return 4
}

// Unknown is the Algo or Proto of a sample whose configuration is not known.
const Unknown = -1

// alone adds the protocol where the algorithm has a single one: all but Tree and Ring run with Simple.
func alone(c nccl.Cell) nccl.Cell {
	if c.Proto == Unknown && c.Algo != Unknown && c.Algo != nccl.AlgoTree && c.Algo != nccl.AlgoRing {
		c.Proto = nccl.ProtoSimple
	}
	return c
}

// atoi returns a number, 0 or more. It is 0 where the text is no number.
func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

func isCut(err error) bool {
	return err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF)
}
