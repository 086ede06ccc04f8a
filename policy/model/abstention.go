package model

// Abstention says why a model leaves a collective to NCCL. The zero value means that it does not.
type Abstention int8

const (
	Decides Abstention = iota
	AbstainColl
	AbstainComm
	AbstainOneNode
	AbstainPerNode
	AbstainNodes
	AbstainRelease
	AbstainSize
	AbstainCells
	AbstainDefault
	AbstainBest
	AbstainGain
	AbstainFarther
)

var abstentions = [...]string{
	Decides:        "",
	AbstainColl:    "the collective was not measured",
	AbstainComm:    "the communicator was not measured",
	AbstainOneNode: "one node tells nothing about several, nor the reverse",
	AbstainPerNode: "another number of ranks per node was measured",
	AbstainNodes:   "another number of nodes was measured",
	AbstainRelease: "another release of NCCL was measured",
	AbstainSize:    "the size is outside those measured",
	AbstainCells:   "no configuration that NCCL offers here was measured",
	AbstainDefault: "what NCCL would choose here was not measured",
	AbstainBest:    "nothing is surely faster than NCCL's choice",
	AbstainGain:    "the gain is within the model's uncertainty",
	AbstainFarther: "the gain is less than is demanded of what was measured on fewer nodes",
}

// Outside reports that nothing like the call was measured.
func (a Abstention) Outside() bool { return a >= AbstainColl && a <= AbstainSize }

func (a Abstention) String() string { return abstentions[a] }

// MarshalText is its sentence.
func (a Abstention) MarshalText() ([]byte, error) { return []byte(a.String()), nil }
