package tuner

import (
	"context"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/dirstore"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// Variables lists the environment variables of the plugin.
var Variables = []string{EnvConfigFile, EnvModelFile, EnvStrict, EnvLog, EnvReload, EnvRendezvous, EnvStallLimit,
	EnvCompare, EnvCanary, EnvLearn, EnvBudget, EnvRecord, EnvMetrics, EnvTrust, EnvFilesTrust, EnvDeterministic,
	detect.TunerFileVariable}

// CheckSettings returns one line for each variable's value that the plugin would not understand.
func CheckSettings(getenv func(string) string) (problems []string) {
	readSettings(getenv, telemetry.Log{Emit: func(_ telemetry.Level, _ string, _ int, text string) {
		problems = append(problems, strings.TrimPrefix(text, "TUNER/Go: "))
	}})
	return problems
}

// IsEtcd reports whether a rendezvous is an etcd, not a directory.
func IsEtcd(rendezvous string) bool {
	return strings.HasPrefix(rendezvous, "etcd://") || strings.HasPrefix(rendezvous, "etcds://")
}

// ReachEtcd asks the etcd of a rendezvous for a record that does not exist, and returns how long that took.
func ReachEtcd(ctx context.Context, rendezvous string, getenv func(string) string) (took time.Duration, err error) {
	store, end, err := openEtcd(rendezvous, getenv)
	if err != nil {
		return 0, err
	}
	defer end()
	start := time.Now()
	_, _, err = store.Get(ctx, "doctor")
	return time.Since(start), err
}

// PutTwice puts a record into an empty directory twice, as ranks do. It returns how long one put takes and
// which record stands afterwards. That is the first one if the file system does what agreement needs.
func PutTwice(ctx context.Context, dir string, first, second []byte) (took time.Duration, stands []byte, err error) {
	store, err := dirstore.Open(dir, identity.New())
	if err != nil {
		return 0, nil, err
	}
	defer store.Close()
	start := time.Now()
	if _, err := store.PutOnce(ctx, "doctor/record", first); err != nil {
		return 0, nil, err
	}
	took = time.Since(start)
	stands, err = store.PutOnce(ctx, "doctor/record", second)
	return took, stands, err
}
