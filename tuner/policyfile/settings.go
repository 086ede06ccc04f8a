package policyfile

// DeterministicVariable asks for sums that do not change. What does not keep to that is refused.
const DeterministicVariable = "NCCL_TUNER_DETERMINISTIC"

// Named is a file and the setting that names it.
type Named struct {
	Variable string // for messages
	Path     string // "": no file
}

// Settings say which files make the policy and how they are read.
type Settings struct {
	Policy, Model Named
	KeepFirst     bool // what a file held when it was read first stays
	Trust         bool // files that others can write to are used
	Deterministic bool // a model is refused, and so is a policy in which policy.CheckSums finds a row

	// live: the files are read during a run, and a bad one leaves what is in force.
	live bool
}

// None reports that no file is named.
func (s Settings) None() bool { return s.Policy.Path == "" && s.Model.Path == "" }

// names names the files for a message.
func (s Settings) names() string {
	if s.Policy.Path == "" || s.Model.Path == "" {
		return s.Policy.Path + s.Model.Path
	}
	return s.Policy.Path + " and " + s.Model.Path
}

// without says what comes of a file that is of no use, for the end of a line.
func (s Settings) without(what string) string {
	if s.live {
		return ""
	}
	return "; no " + what + " is used"
}

// mostBytes is the size up to which a file is read.
func (s Settings) mostBytes() int64 {
	if s.live {
		return MaxLiveBytes
	}
	return MaxFileBytes
}
