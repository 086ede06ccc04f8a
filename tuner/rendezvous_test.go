package tuner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
)

// timed opens a communicator and returns how long that took.
func timed(t *testing.T, p *Plugin, log Log) (c *Comm, took time.Duration) {
	t.Helper()
	began := time.Now()
	c, err := p.Open(oneOfEight(), log)
	if err != nil {
		t.Fatal(err)
	}
	return c, time.Since(began)
}

var lastID uint64

// oneOfEight is a rank of a communicator that is no other test's.
func oneOfEight() CommInfo {
	lastID++
	return CommInfo{ID: 0xabc00 + lastID, Ranks: 8, Nodes: 1, ABI: 7, Counter: &agree.Counter{}}
}

// isLive reports whether a communicator takes part in the agreement of its ranks.
func (c *Comm) isLive() bool { return c.member != nil && !c.member.IsStatic() }

// A process waits once for a store that cannot be used, not once for each communicator,
// and uses it as soon as it can be used again. The time is a simulated one.
func TestUnusableStoreIsAwaitedOnce(t *testing.T) {
	for what, break_ := range map[string]func(dir string) (mend func()){
		"no directory for records": func(dir string) func() {
			os.MkdirAll(dir, 0o700)
			os.WriteFile(filepath.Join(dir, "c"), nil, 0o600)
			return func() { os.Remove(filepath.Join(dir, "c")) }
		},
		"no room": func(dir string) func() {
			os.MkdirAll(dir, 0o700)
			os.WriteFile(filepath.Join(dir, "blob"), nil, 0o600)
			return func() { os.Remove(filepath.Join(dir, "blob")) }
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			meet, file := filepath.Join(dir, "meet"), filepath.Join(dir, "p.csv")
			write(t, file, rows(1))
			mend := break_(meet)
			synctest.Test(t, func(t *testing.T) {
				var log recorder
				p := New(env(EnvConfigFile, file, EnvRendezvous, meet))
				first, took := timed(t, p, log.log())
				if took < agree.JoinLimit || first.isLive() {
					t.Errorf("the first communicator has waited %v", took)
				}
				comms := []*Comm{first}
				for range 20 {
					c, took := timed(t, p, log.log())
					if took > shortWait || c.isLive() || c.Idle() {
						t.Errorf("another communicator has waited %v", took)
					}
					comms = append(comms, c)
				}
				mend()
				after, took := timed(t, p, log.log())
				if !after.isLive() || after.rendezvous.joinTimeout(false) != agree.JoinLimit {
					t.Errorf("it can be used again, and a communicator does not, after %v\n%s", took, strings.Join(log.lines, "\n"))
				}
				for _, c := range append(comms, after) {
					c.Close()
				}
			})
		})
	}
}

// What was found out counts for a while, also where no communicator is left; and who has asked
// to be stopped waits in full.
func TestUnusableStoreIsRemembered(t *testing.T) {
	dir := t.TempDir()
	meet, file := filepath.Join(dir, "meet"), filepath.Join(dir, "p.csv")
	write(t, file, rows(1))
	os.MkdirAll(meet, 0o700)
	os.WriteFile(filepath.Join(meet, "c"), nil, 0o600)
	synctest.Test(t, func(t *testing.T) {
		p := New(env(EnvConfigFile, file, EnvRendezvous, meet))
		open := func() time.Duration {
			c, took := timed(t, p, Log{})
			c.Close()
			return took
		}
		if took := open(); took < agree.JoinLimit {
			t.Errorf("at first it has waited %v", took)
		}
		if took := open(); took > shortWait {
			t.Errorf("then it has waited %v", took)
		}
		began := time.Now()
		lenient := p.getenv
		p.getenv = env(EnvConfigFile, file, EnvRendezvous, meet, EnvStrict, "1")
		if _, err := p.Open(oneOfEight(), Log{}); err == nil || time.Since(began) < agree.JoinLimit {
			t.Errorf("with %s=1 it has waited %v: %v", EnvStrict, time.Since(began), err)
		}
		p.getenv = lenient
		time.Sleep(rememberFor)
		if took := open(); took < agree.JoinLimit {
			t.Errorf("long after it has waited %v", took)
		}
	})
}

// A rendezvous that somebody else can write into is refused, until the user says that he
// trusts them. A planted record is refused one by one.
func TestForeignRendezvousIsRefused(t *testing.T) {
	dir := t.TempDir()
	meet, file := filepath.Join(dir, "meet"), filepath.Join(dir, "p.csv")
	write(t, file, rows(1))
	os.Mkdir(meet, 0o700)
	os.Chmod(meet, 0o777)
	var log recorder
	c, _ := timed(t, New(env(EnvConfigFile, file, EnvRendezvous, meet)), log.log())
	if c.isLive() || log.count("cannot change during the run: "+EnvRendezvous+"="+meet+": "+meet+" is not this user's alone: everybody can write to it (mode 0777; chmod go-w ends that). Name a directory of your own, or set "+EnvTrust+"=1") != 1 {
		t.Errorf("%s", strings.Join(log.lines, "\n"))
	}
	c.Close()
	if left, _ := os.ReadDir(meet); len(left) > 0 {
		t.Errorf("written into it: %v", left)
	}
	c, _ = timed(t, New(env(EnvConfigFile, file, EnvRendezvous, meet, EnvTrust, "1")), log.log())
	if !c.isLive() {
		t.Errorf("%s", strings.Join(log.lines, "\n"))
	}
	c.Close()
	if _, err := New(env(EnvConfigFile, file, EnvRendezvous, meet, EnvStrict, "1")).Open(oneOfEight(), Log{}); err == nil || !strings.Contains(err.Error(), "is not this user's alone") {
		t.Errorf("%v", err)
	}
	os.Chmod(meet, 0o700)
	c, _ = timed(t, New(env(EnvConfigFile, file, EnvRendezvous, meet)), log.log())
	if !c.isLive() {
		t.Errorf("%s", strings.Join(log.lines, "\n"))
	}
	c.Close()
}

// No message repeats a password.
func TestPasswordsAreNotRepeated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	write(t, file, rows(1))
	for _, url := range []string{"etcd://root:SECRET@127.0.0.1:1/x", "etcds://root:SEC/RET@127.0.0.1:1", "redis://:SECRET@host"} {
		for _, strict := range []string{"0", "1"} {
			var log recorder
			c, err := New(env(EnvConfigFile, file, EnvRendezvous, url, EnvStrict, strict)).Open(oneOfEight(), log.log())
			if err == nil {
				c.Close()
			} else {
				log.lines = append(log.lines, err.Error())
			}
			said := strings.Join(log.lines, "\n")
			if !strings.Contains(said, "://***@") || strings.Contains(said, "SEC") || strings.Contains(said, "RET") {
				t.Errorf("%s", said)
			}
		}
	}
}
