package model

// Silence says why a model leaves a collective to NCCL. The zero value means that it does not.
type Silence int8

const (
	Speaks Silence = iota
	SilentColl
	SilentComm
	SilentOneNode
	SilentPerNode
	SilentNodes
	SilentSize
	SilentCells
	SilentTwins
	SilentDefault
	SilentBest
	SilentGain
	SilentFarther
)

var silences = [...]string{
	Speaks:        "",
	SilentColl:    "the collective was not measured",
	SilentComm:    "the communicator was not measured",
	SilentOneNode: "one node tells nothing about several, nor the reverse",
	SilentPerNode: "another number of ranks per node was measured",
	SilentNodes:   "another number of nodes was measured",
	SilentSize:    "the size is outside those measured",
	SilentCells:   "no configuration that NCCL offers here was measured",
	SilentTwins:   "the labels of what was measured here cannot be trusted",
	SilentDefault: "what NCCL would choose here was not measured",
	SilentBest:    "NCCL's own choice is the best known",
	SilentGain:    "the gain is within the model's uncertainty",
	SilentFarther: "the gain is less than is demanded of what was measured on fewer nodes",
}

// Outside reports that nothing like the call was measured.
func (s Silence) Outside() bool { return s >= SilentColl && s <= SilentSize }

func (s Silence) String() string { return silences[s] }
