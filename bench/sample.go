package bench

import "github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"

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

	Source    string // file, and line where there is one
	Simulated bool   // made up by the simulator, not measured
	Verify    bool   // measured to verify what was chosen: fresh, in turns with the default
	Setup     *Setup // where and with what; nil: nothing is known. Samples share it, it does not change
}

// Unknown is the Algo or Proto of a sample whose configuration is not known.
const Unknown = -1

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
