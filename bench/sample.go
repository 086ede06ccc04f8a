package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Sample is one measured time of one collective: a row of nccl-tests, with what
// is known of the configuration it ran with.
type Sample struct {
	nccl.Call
	DType string // "float", ...; empty: not known
	RedOp string // "sum", ...; empty: none or not known

	// Config is what ran, not what was asked for: its parts are Unknown, or no channels, where nothing says so.
	nccl.Config
	nccl.Comm

	InPlace   bool
	Selection Selection

	Micros float64 // one operation
	AlgBW  float64 // GB/s (1e9 bytes/s); 0: not known
	BusBW  float64 // GB/s; 0: not known

	Source string // file, and line where there is one
	// Start is the run of a program that measured, and Pass which of its passes over all sizes, both from 1 (0: not
	// known). Starts are counted within File.
	Start, Pass int

	Simulated bool   // made up by the simulator, not measured
	Verify    bool   // measured to verify what was chosen: fresh, in turns with the default
	Setup     *Setup // where and with what; nil: nothing is known. Samples share it, it does not change
}

// simulatedPrefix begins the source of every sample that was made up.
const simulatedPrefix = "simulated:"

// unusable says why nothing can be learned from a sample. Empty: it is usable.
func (s *Sample) unusable() string {
	const least, most = 1e-3, 1e12 // microseconds; beyond these a time is damage
	// Old versions count fewer bytes in algbw than in size, and rounding is off by
	// a factor of 2 at most where it leaves anything; units are off by 1000.
	const mostOff = 300
	switch off := float64(s.Bytes) / 1000 / s.Micros / s.AlgBW; {
	case s.Bytes == 0:
		return rejectZeroSize
	case !(s.Micros > 0) || math.IsInf(s.Micros, 0):
		return rejectNoTime
	case s.AlgBW > 0 && (off > mostOff || off < 1.0/mostOff):
		return rejectUnits
	case s.Micros < least || s.Micros > most:
		return rejectTime
	case s.Bytes >= nccl.MaxBytes:
		return rejectSize
	case s.Nodes > 0 && s.Ranks > 0 && s.Ranks < s.Nodes:
		return rejectRanks
	case s.Channels > nccl.MaxChannels:
		return rejectChannels
	case s.Known() && !nccl.Offers(s.Coll, s.Cell):
		return fmt.Sprintf(rejectNeverHas, s.Algo, s.Proto, s.Coll)
	}
	return ""
}

// File is the file of a sample's source: "a.txt:12" and "a.json#3" are of a.txt and a.json.
func (s *Sample) File() string {
	i := strings.LastIndexAny(s.Source, ":#")
	if i > 0 && i+1 < len(s.Source) && strings.Trim(s.Source[i+1:], "0123456789") == "" {
		return s.Source[:i]
	}
	return s.Source
}

// A Series names samples that differ in size and configuration only. Times of different series do not repeat one
// another.
type Series struct {
	Coll nccl.Coll `json:"collective"`
	nccl.Comm
	DType      string `json:"dtype,omitempty"` // empty: not known
	RedOp      string `json:"redop,omitempty"` // empty: not known, or none
	InPlace    bool   `json:"in_place"`
	Conditions `json:"-"`
}

// Series is the one that the sample belongs to.
func (s *Sample) Series() Series {
	all := Series{Coll: s.Coll, Comm: s.Comm, DType: s.DType, RedOp: s.RedOp, InPlace: s.InPlace}
	if s.Setup != nil {
		all.Conditions = Conditions{s.Setup.Options, s.Setup.Variables}
	}
	return all
}

// Compare orders by collective and communicator first.
func (s Series) Compare(o Series) int {
	placement := map[bool]int{true: 1}
	return cmp.Or(cmp.Compare(s.Coll, o.Coll), s.Comm.Compare(o.Comm), cmp.Compare(s.DType, o.DType),
		cmp.Compare(s.RedOp, o.RedOp), placement[s.InPlace]-placement[o.InPlace],
		s.Conditions.Compare(o.Conditions))
}

// CommText names the communicator, for example 2x8.
func (s Series) CommText() string {
	switch {
	case s.Ranks == 0:
		return "on an unknown communicator"
	case s.Nodes == 0:
		return fmt.Sprintf("of %d ranks", s.Ranks)
	case s.Ranks%s.Nodes != 0:
		return "of " + s.Comm.String()
	}
	return s.Comm.String()
}

// Variant names the data type, the reduction and the placement, of which NCCL tells no tuner.
func (s Series) Variant() string {
	text := ""
	for _, word := range []string{s.DType, s.RedOp} {
		if word != "" && word != "none" {
			text += word + " "
		}
	}
	if s.InPlace {
		return text + "in-place"
	}
	return text + "out-of-place"
}

func (s Series) String() string { return s.Coll.String() + " " + s.CommText() + ", " + s.Variant() }

// Conditions are what times were measured under. Times under different ones are never compared.
type Conditions struct {
	Options   string // of nccl-tests, as "-t 1 -g 8 -n 20 -w 5"; empty: not known
	Variables string // that change NCCL's choice, as "NCCL_NVLS_ENABLE=0"; empty: none
}

const unknownOptions = "options not known"

func (c Conditions) String() string {
	return strings.TrimSpace(cmp.Or(c.Options, unknownOptions) + " " + c.Variables)
}

// Compare orders them by what is printed.
func (c Conditions) Compare(o Conditions) int { return cmp.Compare(c.String(), o.String()) }

// Named reports whether a name stands for the conditions: their text, graph or eager. "" stands for all.
func (c Conditions) Named(name string) bool {
	return name == "" || name == c.String() || name == "graph" && c.Graphs() || name == "eager" && !c.Graphs()
}

// NamedConditions reads what String writes.
func NamedConditions(text string) (c Conditions) {
	words := strings.Fields(text)
	from := slices.IndexFunc(words, isVariable)
	if from < 0 {
		from = len(words)
	}
	c.Options, c.Variables = strings.Join(words[:from], " "), strings.Join(words[from:], " ")
	if c.Options == unknownOptions {
		c.Options = ""
	}
	return c
}

// Bounds returns the variables that bound channels, as ChannelBounds does.
func (c Conditions) Bounds() map[string]string {
	set := SettingOf(c.Variables)
	return ChannelBounds(func(name string) string { return set[name] })
}

// Allow reports whether the bounds of channels allow n.
func (c Conditions) Allow(n int) bool {
	for name, value := range c.Bounds() {
		bound, _ := strconv.Atoi(value)
		if isMost := strings.HasPrefix(name, "NCCL_MAX_"); isMost && n > bound || !isMost && n < bound {
			return false
		}
	}
	return true
}

// Cover reports whether a run that forced n channels (0: it forced none) under other conditions counts as one under
// these, too: they differ by bounds on channels alone, which allow n.
func (c Conditions) Cover(other Conditions, n int) bool {
	bounds := c.Bounds()
	rest := slices.DeleteFunc(strings.Fields(c.Variables), func(word string) bool {
		name, _, _ := strings.Cut(word, "=")
		return bounds[name] != ""
	})
	return n > 0 && len(bounds) > 0 && c.Allow(n) && c.Options == other.Options &&
		strings.Join(rest, " ") == other.Variables
}

// Unknown returns the settings that are only mentioned, as NAME=VALUE or a word.
func (c Conditions) Unknown() (all []string) {
	for word := range strings.FieldsSeq(c.Variables) {
		if of, is := strings.CutSuffix(word, unsure); is {
			all = append(all, of)
		}
	}
	return all
}

// Graphs reports whether the times are those of calls in CUDA graphs.
func (c Conditions) Graphs() bool { return strings.Contains(" "+c.Options, " -G ") }

// Selection is who chose the configuration.
type Selection int8

const (
	SelectionUnknown Selection = iota
	SelectionDefault           // the library
	SelectionForced            // NCCL_ALGO and the like, or a tuner
	// SelectionOwnChannels: algorithm and protocol were forced. The library chose the
	// number of channels, which its log names.
	SelectionOwnChannels
)

var selections = [...]string{SelectionUnknown: "", SelectionDefault: "default", SelectionForced: "forced",
	SelectionOwnChannels: "own_channels"}
