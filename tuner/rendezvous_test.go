package tuner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/dirstore"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

var lastID uint64

// oneOfEight is a rank of a communicator that is no other test's.
func oneOfEight() CommInfo {
	lastID++
	return CommInfo{ID: 0xabc00 + lastID, Comm: nccl.Comm{Nodes: 1, Ranks: 8}, ABI: 7, Counter: &agree.Counter{}}
}

// isLive reports whether a communicator takes part in the agreement of its ranks.
func (c *Communicator) isLive() bool { return c.member != nil && !c.member.IsStatic() }

// A place that cannot be used fails init, and says which and what to do: other ranks may have met there, so this one
// must not decide by itself. What can be used before the limit is used. The time is a simulated one.
func TestUnusablePlaceFailsInit(t *testing.T) {
	for _, c := range []struct {
		name, says string
		spoil      func(meet string)
		mend       func(meet string)
	}{
		{"no parent", "no such file or directory", func(meet string) {}, func(meet string) {
			os.MkdirAll(meet, 0o700)
		}},
		{"a file", "not a directory", func(meet string) {
			os.MkdirAll(filepath.Dir(meet), 0o700)
			os.WriteFile(meet, nil, 0o600)
		},
			func(meet string) { os.Remove(meet) }},
		{"everybody's",
			meetPlace + " is not this user's alone: everybody can write to it (mode 0777; chmod go-w ends that). " +
				"Name a directory of your own, or set " + EnvTrust + "=1",
			func(meet string) { os.MkdirAll(meet, 0o700); os.Chmod(meet, 0o777) }, func(meet string) {
				os.Chmod(meet, 0o700)
			}},
		{"no directory for records", "cannot be reached: open ", func(meet string) {
			os.MkdirAll(meet, 0o700)
			os.WriteFile(filepath.Join(meet, "c"), nil, 0o600)
		},
			func(meet string) { os.Remove(filepath.Join(meet, "c")) }},
		{"no room", "cannot be reached: ", func(meet string) {
			os.MkdirAll(meet, 0o700)
			os.WriteFile(filepath.Join(meet, "blob"), nil, 0o600)
		},
			func(meet string) { os.Remove(filepath.Join(meet, "blob")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			meet, file := filepath.Join(dir, "absent", "meet"), filepath.Join(dir, "p.csv")
			write(t, file, rows(1))
			c.spoil(meet)
			synctest.Test(t, func(t *testing.T) {
				p := New(env(EnvConfigFile, file, EnvRendezvous, meet))
				began := time.Now()
				comm, err := p.Open(oneOfEight(), telemetry.Log{})
				if err == nil {
					comm.Close()
					t.Fatal("init succeeds")
				}
				for _, part := range []string{"must not decide without them: " + EnvRendezvous + "=" + meet + ": ",
					strings.ReplaceAll(c.says, meetPlace, meet), EnvReload + "=new"} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%q is not in: %v", part, err)
					}
				}
				if took := time.Since(began); took != agree.JoinLimit {
					t.Errorf("it has waited %v", took)
				}
				time.AfterFunc(agree.JoinLimit/2, func() { c.mend(meet) })
				if comm, err = p.Open(oneOfEight(), telemetry.Log{}); err != nil {
					t.Fatal(err)
				}
				defer comm.Close()
				if !comm.isLive() {
					t.Error("it takes no part")
				}
			})
		})
	}
}

// meetPlace stands for the place in what is said.
const meetPlace = "MEET"

// A machine on which no rank can meet another leaves the communicator on what it has read.
func TestNobodyCanMeet(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "p.csv")
	write(t, file, rows(1))
	for _, strict := range []string{"", "1"} {
		var log recorder
		p := New(env(EnvConfigFile, file, EnvStrict, strict))
		p.shm = filepath.Join(dir, "absent")
		c, err := p.Open(oneOfEight(), log.log())
		if strict != "" {
			if err == nil ||
				!strings.Contains(err.Error(), EnvStrict+"=1 and the ranks cannot meet: access "+p.shm+
					": no such file") {
				t.Errorf("strict: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.isLive() || c.NeverDecides() ||
			log.count("WARN TUNER/Go: the policy cannot change during the run: the ranks cannot meet: access "+
				p.shm) != 1 {
			t.Errorf("live: %v, idle: %v\n%s", c.isLive(), c.NeverDecides(), strings.Join(log.lines, "\n"))
		}
		c.Close()
	}
}

// Somebody cleans up where the ranks of a job meet. Communicators that are created afterwards meet in a new place,
// all in the same: those of processes that used the old one, too.
func TestPlaceIsMadeAnew(t *testing.T) {
	place := func(p *Plugin) string { return p.rendezvous[rendezvousKey{}].store.(*dirstore.Store).Dir() }
	for what, clean := range map[string]func(place string){
		"all of it":          func(place string) { os.RemoveAll(place) },
		"the lock file only": func(place string) { os.Remove(filepath.Join(place, "lock")) },
	} {
		t.Run(what, func(t *testing.T) {
			shm, file := t.TempDir(), filepath.Join(t.TempDir(), "p.csv")
			write(t, file, rows(1))
			info := oneOfEight()
			var processes []*Plugin
			open := func(p *Plugin) *Communicator {
				info.Counter = &agree.Counter{}
				c, err := p.Open(info, telemetry.Log{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(c.Close)
				return c
			}
			for range 2 {
				p := New(env(EnvConfigFile, file))
				p.shm = shm
				processes = append(processes, p)
				open(p)
			}
			old := place(processes[0])
			clean(old)
			write(t, file, rows(2))
			info.ID++
			first := open(processes[0])
			write(t, file, rows(3))
			processes = append(processes, New(processes[0].getenv))
			processes[2].shm = shm
			for _, p := range processes[1:] {
				if c := open(p); !c.isLive() || c.inForce().EffectDigest() != first.inForce().EffectDigest() {
					t.Errorf("it starts on version %s, and the first on %s", c.inForce().EffectDigest(),
						first.inForce().EffectDigest())
				}
			}
			for _, p := range processes {
				if now := place(p); now == old || now != place(processes[0]) {
					t.Errorf("it meets in %s, the first one in %s, and before that it was %s", now,
						place(processes[0]), old)
				}
			}
		})
	}
}

// A rendezvous that somebody else can write into is used if the user says that he trusts them.
func TestForeignRendezvousIsTrusted(t *testing.T) {
	dir := t.TempDir()
	meet, file := filepath.Join(dir, "meet"), filepath.Join(dir, "p.csv")
	write(t, file, rows(1))
	os.Mkdir(meet, 0o700)
	os.Chmod(meet, 0o777)
	var log recorder
	c, err := New(env(EnvConfigFile, file, EnvRendezvous, meet, EnvTrust, "1")).Open(oneOfEight(), log.log())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !c.isLive() {
		t.Errorf("%s", strings.Join(log.lines, "\n"))
	}
}

// No message repeats a password.
func TestPasswordsAreNotRepeated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	write(t, file, rows(1))
	for _, url := range []string{"etcd://root:SECRET@127.0.0.1:1/x", "etcds://root:SEC/RET@127.0.0.1:1",
		"redis://:SECRET@host"} {
		synctest.Test(t, func(t *testing.T) {
			var log recorder
			c, err := New(env(EnvConfigFile, file, EnvRendezvous, url)).Open(oneOfEight(), log.log())
			if err == nil {
				c.Close()
			} else {
				log.lines = append(log.lines, err.Error())
			}
			said := strings.Join(log.lines, "\n")
			if !strings.Contains(said, "://***@") || strings.Contains(said, "SEC") || strings.Contains(said, "RET") {
				t.Errorf("%s", said)
			}
		})
	}
}
