package tuner

// The environment variables that the plugin reads, at each communicator's init.
const (
	EnvConfigFile = "NCCL_TUNER_CONFIG_FILE"
	EnvModelFile  = "NCCL_TUNER_MODEL_FILE"
	EnvStrict     = "NCCL_TUNER_STRICT"
	EnvLog        = "NCCL_TUNER_LOG"
)

// settings is what the environment asks for.
type settings struct {
	// configFile is the policy file; empty for none. There is no default: a file
	// that happens to lie in the working directory must not steer a job.
	configFile string
	// modelFile is the cost model for what no row of the policy file decides; empty
	// for none.
	modelFile string
	// strict makes init fail where the plugin would otherwise start without what it
	// was told to use: no file, a missing or faulty one, a setting it does not
	// understand.
	strict bool
	// logDecisions asks for one INFO line per new decision.
	logDecisions bool

	// envChooses: the user restricts NCCL's choice by NCCL_ALGO or NCCL_PROTO.
	envChooses bool
}

// readSettings asks getenv, which returns "" for what is not set. A value that
// means nothing is reported and counts as not set.
func readSettings(getenv func(string) string, log Log) (s settings, ok bool) {
	ok = true
	s.configFile = getenv(EnvConfigFile)
	s.modelFile = getenv(EnvModelFile)
	s.envChooses = getenv("NCCL_ALGO") != "" || getenv("NCCL_PROTO") != ""
	switch v := getenv(EnvStrict); v {
	case "", "0":
	case "1":
		s.strict = true
	default:
		log.Warnf("%s=%q is not understood (allowed: 0, 1)", EnvStrict, v)
		s.strict, ok = true, false // whoever sets it wants to be stopped
	}
	switch v := getenv(EnvLog); v {
	case "":
	case "decisions":
		s.logDecisions = true
	default:
		log.Warnf("%s=%q is not understood (allowed: decisions)", EnvLog, v)
		ok = false
	}
	return s, ok
}
