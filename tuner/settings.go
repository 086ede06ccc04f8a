package tuner

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// The environment variables that the plugin reads, at each communicator's init.
const (
	EnvConfigFile = "NCCL_TUNER_CONFIG_FILE"
	EnvModelFile  = "NCCL_TUNER_MODEL_FILE"
	EnvPasses     = "NCCL_TUNER_PASSES"
	EnvStrict     = "NCCL_TUNER_STRICT"
	EnvLog        = "NCCL_TUNER_LOG"
	EnvReload     = "NCCL_TUNER_RELOAD"
	EnvRendezvous = "NCCL_TUNER_RENDEZVOUS"
	EnvStallLimit = "NCCL_TUNER_STALL_LIMIT"
	EnvCompare    = "NCCL_TUNER_COMPARE"
	EnvCanary     = "NCCL_TUNER_CANARY"
	EnvLearn      = "NCCL_TUNER_LEARN"
	EnvBudget     = "NCCL_TUNER_LEARN_BUDGET"
	EnvRecord     = "NCCL_TUNER_RECORD"
	EnvMetrics    = "NCCL_TUNER_METRICS"
	// By default the plugin refuses what users other than root and the job's user can write. EnvTrust accepts
	// such a rendezvous. EnvFilesTrust accepts such a policy, model or topology file.
	EnvTrust      = "NCCL_TUNER_RENDEZVOUS_TRUST"
	EnvFilesTrust = safefile.TrustVariable
	// EnvDeterministic refuses whatever could make the last bits of a sum differ from those of the same call before.
	EnvDeterministic = policyfile.DeterministicVariable
)

// reload says what a change of the policy's files does during a run.
type reload int8

const (
	reloadLive reload = iota // all ranks of a communicator change at the same call, where that is possible
	reloadNew                // communicators created later see it
	reloadOff                // nothing: what the first communicator of a process saw stays
)

var reloads = []string{"live", "new", "off"}

// reloadUniform is "live" for communicators all of whose calls are alike, too.
const reloadUniform = "uniform"

// compareNCCL as NCCL_TUNER_COMPARE stands for no policy at all.
const compareNCCL = "nccl"

// settings is what the environment asks for.
type settings struct {
	// files are the policy file and the model file. There is no default: a file that happens to
	// lie in the working directory must not steer a job.
	files policyfile.Settings
	// passes is the file that names the policy of each pass of a sweep; empty: files are for all calls.
	passes string
	// strict makes init fail where the plugin would otherwise start without what it
	// was told to use: no file, a missing or faulty one, a setting it does not
	// understand.
	strict bool
	reload reload
	// mustReload: the user has asked for live and wants to hear if it is not possible.
	mustReload bool
	// uniform allows a change on a communicator whose calls are all alike. There, the ranks cannot notice
	// that one of them has made one call more.
	uniform bool
	// rendezvous names the store that all ranks of a job reach; empty for the default.
	rendezvous string
	// trust accepts the rendezvous' records even if other users can write there.
	trust bool
	// stallLimit bounds how long a call may wait for a lost store; 0: for ever.
	stallLimit time.Duration
	// compare names the other side of a comparison with the policy while the job runs. It is compareNCCL or a
	// policy file; empty: nothing is compared.
	compare string
	// canary compares each edit with the version before it. It rolls the edit back if the steps are surely
	// slower.
	canary bool
	// learn is the directory of what jobs have learned; empty: nothing is. learnBudget is the share of step time that
	// trying may cost.
	learn       string
	learnBudget float64
	// record is the directory for what is found out about the job; empty for none.
	record string
	// logDecisions asks for one INFO line per new decision.
	logDecisions bool
	// metrics is the directory for files that Prometheus reads; empty for none.
	metrics string

	// envChooses: the user restricts NCCL's choice by NCCL_ALGO or NCCL_PROTO.
	envChooses bool
}

// readSettings reads the variables by getenv, which returns "" for one that is not set. It logs a value that
// it does not understand, and takes that variable as not set.
func readSettings(getenv func(string) string, log telemetry.Log) (s settings, ok bool) {
	ok = true
	s.files.Policy = policyfile.Named{Variable: EnvConfigFile, Path: getenv(EnvConfigFile)}
	s.passes = getenv(EnvPasses)
	s.files.Model = policyfile.Named{Variable: EnvModelFile, Path: getenv(EnvModelFile)}
	s.envChooses = getenv("NCCL_ALGO") != "" || getenv("NCCL_PROTO") != ""
	flag := func(name string, otherwise bool) bool {
		v := getenv(name)
		if v == "" || v == "0" || v == "1" {
			return v == "1"
		}
		log.Warnf("%s=%q is not understood (allowed: 0, 1)", name, v)
		ok = false
		return otherwise
	}
	s.strict = flag(EnvStrict, true) // whoever sets it wants to be stopped
	s.trust = flag(EnvTrust, false)
	s.files.Trust = flag(EnvFilesTrust, false)
	if s.rendezvous = getenv(EnvRendezvous); strings.Contains(s.rendezvous, "://") && !IsEtcd(s.rendezvous) {
		log.Warnf("%s=%s is not understood (allowed: a directory, etcd://HOST:PORT/PREFIX, etcds://...)",
			EnvRendezvous, wording.HideSecrets(s.rendezvous))
		s.rendezvous, ok = "", false
	}
	s.metrics = getenv(EnvMetrics)
	v := getenv(EnvReload)
	if s.uniform = v == reloadUniform; s.uniform {
		v = reloads[reloadLive]
	}
	s.mustReload = v == reloads[reloadLive]
	if i := slices.Index(reloads, v); i >= 0 {
		s.reload = reload(i)
	} else if v != "" {
		log.Warnf("%s=%q is not understood (allowed: %s)", EnvReload, v,
			strings.Join(append(slices.Clone(reloads), reloadUniform), ", "))
		s.reload, ok = reloadNew, false // not knowing better, nothing changes under a communicator
	}
	s.files.KeepFirst = s.reload == reloadOff
	s.compare = getenv(EnvCompare)
	s.record = getenv(EnvRecord)
	s.canary = flag(EnvCanary, false)
	s.learn, s.learnBudget = getenv(EnvLearn), defaultBudget
	if s.learn != "" && s.compares() {
		log.Warnf("%s=%s is not used: a comparison (%s, %s) would be disturbed by what is tried; set one of them",
			EnvLearn, s.learn, EnvCompare, EnvCanary)
		s.learn, ok = "", false
	}
	if v := getenv(EnvBudget); v != "" {
		percent, err := strconv.ParseFloat(strings.TrimSuffix(v, "%"), 64)
		if err != nil || !(percent > 0 && percent <= 100) {
			log.Warnf("%s=%q is not understood (allowed: percent of the step time, above 0 to 100)", EnvBudget, v)
			ok = false
		} else {
			s.learnBudget = percent / 100
		}
	}
	if s.files.Deterministic = flag(EnvDeterministic, true); s.files.Deterministic {
		ok = s.refuseChanges(getenv(EnvReload), log) && ok
	}
	if s.passes != "" {
		s.onlyPasses(log)
	}
	s.mustReload = s.mustReload || len(s.asked()) > 0
	s.stallLimit = agree.DefaultStallLimit
	if v := getenv(EnvStallLimit); v != "" {
		seconds, err := strconv.ParseUint(v, 10, 31)
		if err != nil {
			log.Warnf("%s=%q is not understood (allowed: seconds, 0 to wait for ever)", EnvStallLimit, v)
			ok = false
		} else {
			s.stallLimit = time.Duration(seconds) * time.Second
		}
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

// refuseChanges turns off all that changes versions during the run, under EnvDeterministic. It logs what of that
// the user has asked for; ok is false if there is any. reload is the value of EnvReload.
func (s *settings) refuseChanges(reload string, log telemetry.Log) (ok bool) {
	ok = true
	for _, a := range s.asked() {
		log.Warnf("%s=%s is refused under %s=1: versions that take turns change the last bits of sums (unset one of "+
			"both)", a.variable, a.value, EnvDeterministic)
		ok = false
	}
	if s.mustReload || reload == reloads[reloadNew] {
		log.Warnf("%s=%s is refused under %s=1: an edit changes the last bits of sums (allowed: %s; or unset one "+
			"of both)",
			EnvReload, reload, EnvDeterministic, reloads[reloadOff])
		ok = false
	}
	s.stay()
	s.files.KeepFirst = true
	return ok
}

// onlyPasses turns off what the versions of passes would disturb, and logs what the user has asked for of it.
func (s *settings) onlyPasses(log telemetry.Log) {
	for _, without := range append(s.asked(), setting{EnvConfigFile, s.files.Policy.Path},
		setting{EnvReload, map[bool]string{true: reloads[reloadLive]}[s.mustReload]}, setting{EnvMetrics, s.metrics}) {
		if without.value != "" {
			log.Infof("%s=%s is without effect under %s", without.variable, without.value, EnvPasses)
		}
	}
	s.files.Policy, s.metrics = policyfile.Named{}, ""
	s.stay()
}

// stay turns off what changes versions during the run.
func (s *settings) stay() {
	s.compare, s.canary, s.learn = "", false, ""
	s.reload, s.mustReload, s.uniform = reloadOff, false, false
}

// defaultBudget is the share of step time that trying may cost.
const defaultBudget = 0.01

// setting is a variable and its value.
type setting struct{ variable, value string }

// asked are the variables by which the library itself is to change versions in the job. A rank's identity ends with
// them, so that the others know.
func (s settings) asked() (all []setting) {
	if s.compare != "" {
		all = append(all, setting{EnvCompare, s.compare})
	}
	if s.canary {
		all = append(all, setting{EnvCanary, "1"})
	}
	if s.learn != "" {
		all = append(all, setting{EnvLearn, s.learn})
	}
	return all
}

// compares reports whether versions are to be compared in the job.
func (s settings) compares() bool { return s.compare != "" || s.canary }
