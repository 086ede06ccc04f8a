//go:build cgo

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// Eight ranks make the same calls while a script edits, breaks, deletes and restores
// both files. Afterwards all their decisions are compared.
func TestLiveEdits(t *testing.T) {
	t.Parallel()
	saves := 100
	if testing.Short() {
		saves = 20
	}
	editALot(t, built, saves, 500)
}

// editSlowly is for ranks that are emulated or instrumented: they make fewer calls, and
// meet where they have more time for each step of a change.
func editSlowly(t *testing.T, p programs, saves int, env ...string) {
	editALot(t, p, saves, 100, append(env, "NCCL_TUNER_RENDEZVOUS="+t.TempDir())...)
}

// editALot has ranks make so many calls per second.
func editALot(t *testing.T, p programs, saves, rate int, env ...string) {
	const comms = 2
	dir := t.TempDir()
	seed := rand.Uint64()
	t.Logf("the script's seed is %d", seed)
	files := editedFiles{TB: t, dice: rand.New(rand.NewPCG(1, seed)), policy: filepath.Join(dir, "policy.csv"),
		model: filepath.Join(dir, "model.json")}
	files.savePolicy(write)
	files.saveModel(write)
	j := startJob(t, p, 8, args("ranks=8 comms=%d rate=%d haste=2", comms, rate), append(env,
		"NCCL_TUNER_CONFIG_FILE="+files.policy, "NCCL_TUNER_MODEL_FILE="+files.model))
	j.tell("go")
	for range saves {
		waitCalls(0, files.dice.IntN(200), j.ranks[files.dice.IntN(8)])
		files.edit()
		if files.dice.IntN(12) == 0 { // often enough, not always, a version gets the time it needs
			files.mend()
			j.decided(files.dice.IntN(comms), files.versions[len(files.versions)-1])
		}
	}
	files.mend()
	for context := range comms {
		j.decided(context, files.versions[len(files.versions)-1])
	}
	waitCalls(0, 100, j.ranks...) // so that the model decides some too
	j.tell("stop")
	for context := range comms {
		calls := j.compare(context)
		policies := j.checkSaves(calls, files.versions, files.brokenVersions, outcome.byPolicy, allGather,
			reduceScatter)
		models := j.checkSaves(calls, files.models, files.brokenModels, outcome.byModel, allReduce)
		j.checkChunks(calls)
		if last := files.models[len(files.models)-1]; models[len(models)-1] != last {
			t.Errorf("communicator %d: the last model in force is %d, the last saved %d", context,
				models[len(models)-1], last)
		}
		t.Logf("communicator %d: %d calls on each of 8 ranks, %d saves, %d policies and %d models came into force",
			context, len(calls), len(files.versions)+len(files.models), len(policies), len(models))
	}
	j.end()
}

// editedFiles are a policy and a model that somebody works on.
type editedFiles struct {
	testing.TB
	dice          *rand.Rand
	policy, model string
	versions      []int // of the policy that were saved
	models        []int
	// Those right after which a file was broken or removed.
	brokenVersions, brokenModels []int
}

func (f *editedFiles) savePolicy(how func(testing.TB, string, []byte)) {
	f.Helper()
	f.versions = append(f.versions, len(f.versions)%maxVersion+1)
	how(f, f.policy, policyText(f.versions[len(f.versions)-1]))
}

func (f *editedFiles) saveModel(how func(testing.TB, string, []byte)) {
	f.Helper()
	f.models = append(f.models, len(f.models)%maxVersion+1)
	how(f, f.model, modelText(f.models[len(f.models)-1]))
}

// edit does one of the things that happen to files.
func (f *editedFiles) edit() {
	f.Helper()
	what := f.dice.IntN(10)
	if what <= 3 {
		f.brokenVersions = append(f.brokenVersions, f.versions[len(f.versions)-1])
		f.brokenModels = append(f.brokenModels, f.models[len(f.models)-1])
	}
	switch what {
	case 0:
		writeInPlace(f, f.policy, []byte("allgather,0,inf,rign,simple,4,-1,-1\n"))
	case 1:
		write(f, f.model, []byte("{"))
	case 2:
		os.Remove(f.policy)
	case 3:
		os.Remove(f.model)
	case 4: // a comment: no change of meaning
		writeInPlace(f, f.policy, append(policyText(f.versions[len(f.versions)-1]),
			fmt.Sprintf("# %d\n", f.dice.Int())...))
	case 5, 6:
		f.saveModel(write)
	case 7:
		f.savePolicy(writeInPlace)
	default:
		f.savePolicy(write)
	}
}

// mend makes both files sound, with new versions.
func (f *editedFiles) mend() {
	f.Helper()
	f.saveModel(write)
	f.savePolicy(write)
}
