package trial

import (
	"testing"
	"time"
)

// A canary compares each edit with what was in force before, and takes back what is slower.
func TestCanary(t *testing.T) {
	j := play(t, true, false, fastRows, slowRows, thirdRows)
	j.byVersion(map[string]float64{fastRows: 10000, slowRows: 10500, thirdRows: 9900})
	j.run(time.Minute)
	if j.turns != 0 || j.clock.Next.Load() != never {
		t.Error("without an edit there is nothing to compare")
	}
	j.save(j.versions[slowRows])
	before := j.call
	j.run(5 * time.Minute)
	if c := j.last(); !c.Canary || !c.Slower() || c.Stays != "B" || j.inForce != j.versions[fastRows] {
		t.Errorf("%v is in force after %+v", j.inForce, c)
	}
	if j.log.count("WARN "+j.versions[slowRows].String()+" against ") != 1 ||
		j.log.count(": slower, so it was rolled back") != 1 ||
		j.log.count("; "+j.inForce.String()+" is active again; an edit that changes what") != 1 {
		t.Errorf("the log: %v", j.log)
	}
	if c := j.last(); c.Pairs > 3 {
		t.Errorf("it took %d pairs, %d calls", c.Pairs, j.call-before)
	}
	j.save(j.versions[thirdRows])
	j.run(20 * time.Minute)
	if c := j.last(); c.Slower() || c.Stays != "A" || j.inForce != j.versions[thirdRows] {
		t.Errorf("%v is in force after %+v", j.inForce, c)
	}
}

// However much slower an edit is, it is taken back.
func TestCanaryOfVeryBadEdit(t *testing.T) {
	for _, us := range []float64{14000, 16000, 20000, 40000, 100000} {
		j := play(t, true, false, fastRows, slowRows)
		j.byVersion(map[string]float64{fastRows: 10000, slowRows: us})
		j.run(time.Minute)
		j.save(j.versions[slowRows])
		if j.run(5 * time.Minute); j.inForce != j.versions[fastRows] || len(j.notes) == 0 || !j.last().Slower() {
			t.Errorf("%v us instead of 10000: it stays; the log: %v", us, j.log.lines)
		}
	}
}

// An edit that goes back to what was in force before stays, whichever side is in force just then.
func TestCanaryOfEditThatGoesBack(t *testing.T) {
	for _, after := range []time.Duration{20 * time.Second, 21 * time.Second, 22 * time.Second, 23 * time.Second} {
		j := play(t, true, false, fastRows, thirdRows)
		j.byVersion(map[string]float64{fastRows: 10000, thirdRows: 10000})
		j.run(time.Second)
		j.save(j.versions[thirdRows])
		j.run(after)
		j.wanted = j.versions[fastRows].EffectDigest() // the member drops an edit that means what is in force
		if j.inForce != j.versions[fastRows] {
			j.save(j.versions[fastRows])
		}
		j.run(time.Minute)
		if j.inForce != j.versions[fastRows] || j.last().State != Edited || j.last().Stays != "B" {
			t.Errorf("%v is in force after %+v", j.inForce, j.last())
		}
	}
}

// A rank that sees an edit late brings it into force again after it was rolled back: it is tried anew.
func TestCanaryOfLateEdit(t *testing.T) {
	j := play(t, true, false, fastRows, slowRows)
	j.byVersion(map[string]float64{fastRows: 10000, slowRows: 10500})
	j.run(time.Second)
	for range 2 {
		j.save(j.versions[slowRows])
		j.run(5 * time.Minute)
		if j.inForce != j.versions[fastRows] {
			t.Fatalf("%v is in force after %+v", j.inForce, j.last())
		}
	}
}

// An edit that comes before the policy has followed NCCL's choice is tried against the policy.
func TestCanaryAfterComparison(t *testing.T) {
	for offset := range 60 { // until one ends while NCCL's choice is in force
		j := play(t, true, true, fastRows, "", slowRows)
		j.byVersion(map[string]float64{fastRows: 9000, slowRows: 10000, "": 10500})
		j.now = j.now.Add(time.Duration(offset) * time.Second)
		for len(j.notes) == 0 || j.last().State == Running {
			j.run(10 * time.Millisecond)
		}
		if j.inForce == j.versions[fastRows] {
			continue
		}
		j.save(j.versions[slowRows])
		j.run(5 * time.Minute)
		if c := j.last(); !c.Canary || c.B.Version != j.versions[fastRows].EffectDigest() || j.inForce != j.versions[fastRows] {
			t.Errorf("%v is in force after %+v", j.inForce, c)
		}
		return
	}
	t.Fatal("none has ended so")
}
