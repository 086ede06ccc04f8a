package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/simulate"
)

// settings are the values of the variables FAKEPERF_*.
type settings struct {
	grids   []string // sweeps that times are from; none: they are simulated
	noise   float64  // typical deviation of a time, as a part
	drift   float64  // part by which times rise and fall over driftStarts
	seed    uint64   // of the noise; 0: every run has another
	nccl    nccl.Version
	rccl    bool    // it is RCCL of that number
	seconds float64 // that a start really takes
	perNode int     // ranks on each node; 0: as what starts the processes says
	hosts   []string
	state   string // file that counts starts; "": none
	start   int    // number of this one, from 1; 0: not counted
	fails   []failure
	effects []effect
}

// effect is what a variable of the environment does to times.
type effect struct {
	name, value string
	factor      float64 // of times; 0: NCCL refuses the value
	from, to    uint64  // bytes
}

// parseEffect reads NAME=VALUE:FACTOR, NAME=VALUE:FACTOR@SIZE-SIZE or NAME=VALUE:refused.
func parseEffect(text string) (e effect, err error) {
	at := max(0, strings.LastIndex(text, ":"))
	what := text[:at]
	does, sizes, some := strings.Cut(strings.TrimPrefix(text[at:], ":"), "@")
	e.to = math.MaxUint64
	e.name, e.value, _ = strings.Cut(what, "=")
	if does != "refused" {
		if e.factor, err = strconv.ParseFloat(does, 64); err != nil || !(e.factor > 0) {
			return e, fmt.Errorf("%q: not NAME=VALUE:FACTOR@SIZE-SIZE or NAME=VALUE:refused", text)
		}
	}
	if from, to, _ := strings.Cut(sizes, "-"); some {
		if e.from, err = nccl.ParseBytes(from); err == nil {
			e.to, err = nccl.ParseBytes(cmp.Or(to, from))
		}
	}
	return e, err
}

// set reports whether the environment has the value.
func (e *effect) set() bool { return os.Getenv(e.name) == e.value }

// changed is a time under the variables of the environment.
func (s *settings) changed(micros float64, bytes uint64) float64 {
	for i := range s.effects {
		if e := &s.effects[i]; e.factor > 0 && e.set() && e.from <= bytes && bytes <= e.to {
			micros *= e.factor
		}
	}
	return micros
}

// readSettings takes the variables and refuses those that it does not know.
func readSettings(environ []string) (s settings, err error) {
	s = settings{noise: .007, nccl: nccl.Reference}
	var errs []error
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		name, ours := strings.CutPrefix(name, "FAKEPERF_")
		if !ours || value == "" {
			continue
		}
		if err := s.set(name, value); err != nil {
			errs = append(errs, fmt.Errorf("FAKEPERF_%s=%s: %w", name, value, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return s, err
	}
	if s.drift > 0 && s.state == "" {
		return s, errors.New("FAKEPERF_DRIFT goes from start to start: set FAKEPERF_STATE to a file that counts them")
	}
	for _, f := range s.fails {
		if f.start > 0 && s.state == "" {
			return s, errors.New("FAKEPERF_FAIL names starts by number: set FAKEPERF_STATE to a file that counts them")
		}
	}
	return s, nil
}

func (s *settings) set(name, value string) (err error) {
	number := func(into *float64, most float64) error {
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || !(n >= 0 && n <= most) {
			return fmt.Errorf("not a number from 0 to %v", most)
		}
		*into = n
		return nil
	}
	switch name {
	case "GRID":
		s.grids = strings.Split(value, ",")
	case "NOISE":
		return number(&s.noise, simulate.MaxNoise)
	case "DRIFT":
		return number(&s.drift, 0.5)
	case "SEED":
		if s.seed, err = strconv.ParseUint(value, 10, 64); err != nil || s.seed == 0 {
			return errors.New("not a whole number from 1")
		}
	case "NCCL":
		var number string
		number, s.rccl = strings.CutPrefix(value, "RCCL ")
		s.nccl, err = nccl.ParseVersion(number)
	case "SECONDS":
		return number(&s.seconds, math.MaxInt32)
	case "RANKS_PER_NODE":
		if s.perNode, err = strconv.Atoi(value); err == nil && s.perNode < 1 {
			return errors.New("not a number from 1")
		}
	case "HOSTS":
		s.hosts = strings.Split(value, ",")
	case "STATE":
		s.state = value
	case "FAIL":
		for part := range strings.SplitSeq(value, ",") {
			f, err := parseFailure(part)
			if err != nil {
				return err
			}
			s.fails = append(s.fails, f)
		}
	case "SETTING":
		for part := range strings.SplitSeq(value, ",") {
			e, err := parseEffect(part)
			if err != nil {
				return err
			}
			s.effects = append(s.effects, e)
		}
	default:
		return errors.New("there is no such setting (allowed: FAKEPERF_GRID, _NOISE, _SEED, _DRIFT, _NCCL, _SECONDS, " +
			"_RANKS_PER_NODE, _HOSTS, _STATE, _FAIL, _SETTING)")
	}
	return err
}

// count adds a line for this start to the file of starts. The number of the line is the number of the start.
func (s *settings) count(command string) error {
	if s.state == "" {
		return nil
	}
	file, err := os.OpenFile(s.state, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	text, err := os.ReadFile(s.state)
	if err != nil {
		return err
	}
	s.start = 1 + strings.Count(string(text), "\n")
	_, err = fmt.Fprintf(file, "%d %s\n", s.start, strings.ReplaceAll(command, "\n", " "))
	return err
}

// driftStarts is the number of starts after which the machine is as it was.
const driftStarts = 16

// drifted is a time on the machine as it is at this start.
func (s *settings) drifted(micros float64) float64 {
	return micros * (1 + s.drift*math.Sin(2*math.Pi*float64(s.start)/driftStarts))
}

// newNoise draws the noise of this run. Equal seeds and numbers of starts have equal noise.
func (s *settings) newNoise() *simulate.Noise {
	if s.seed == 0 && s.start == 0 {
		return simulate.NewNoise(s.noise, clusterSeed, uint64(time.Now().UnixNano()))
	}
	return simulate.NewNoise(s.noise, cmp.Or(s.seed, clusterSeed), uint64(s.start))
}
