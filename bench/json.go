package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// The JSON of nccl-tests' -J, versions 1 to 3. Only what is used is named here;
// versions 2 and 3 add statistics per iteration. Keys of the summary were
// misspelt in 2.17.5 to 2.17.8, so nothing depends on them.
type (
	jsonConfig struct {
		settings
		Devices []struct {
			Rank  int    `json:"rank"`
			Group int    `json:"group"`
			Host  string `json:"hostname"`
			Info  string `json:"device_info"`
		} `json:"devices"`
		Blocking string `json:"blocking_collectives"`
	}
	jsonResult struct {
		Size       uint64     `json:"size"`
		Count      uint64     `json:"count"`
		Type       string     `json:"type"`
		RedOp      string     `json:"redop"`
		Root       jsonNumber `json:"root"` // a padded string: "    -1"
		OutOfPlace *jsonHalf  `json:"out_of_place"`
		InPlace    *jsonHalf  `json:"in_place"`
	}
	jsonHalf struct {
		Time    *jsonNumber `json:"time"`
		CPUTime *jsonNumber `json:"cpu_time"` // instead of time: -C 1
		AlgBW   jsonNumber  `json:"alg_bw"`
		BusBW   jsonNumber  `json:"bus_bw"`
		Wrong   *jsonNumber `json:"nwrong"` // null: not checked
	}
	jsonOutOfBounds struct {
		Count int `json:"count"`
	}
)

// jsonNumber is a number, or a string such as "nan" where the program had none.
type jsonNumber float64

func (n *jsonNumber) UnmarshalJSON(text []byte) error {
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.Trim(string(text), `"`)), 64)
	if err != nil {
		v = math.NaN()
	}
	*n = jsonNumber(v)
	return nil
}

// readJSON reads one or more objects. A file that was cut off keeps the results
// before the cut, as crashed runs of nccl-tests before 2.18.4 leave it.
func readJSON(in *bufio.Reader, r *Result) error {
	decoder := json.NewDecoder(in)
	for n := 0; ; n++ {
		j := jsonRun{decoder: decoder, r: r, run: &testRun{footer: true}}
		err := j.object()
		if n > 0 && err == io.EOF {
			return nil
		}
		if err != nil && !isCut(err) {
			return fmt.Errorf("%s: at byte %d: %w", r.File, decoder.InputOffset(), wording.JSONError(err))
		}
		if err != nil {
			r.note(0, "the file ends in the middle: it was cut off, or the run was")
		}
		if !j.sawResults && (n == 0 || err == nil) {
			return fmt.Errorf("%s: %w", r.File, errNotSweep)
		}
		j.run.finish(r)
		if len(j.run.rows) == 0 {
			r.note(0, "a run without a single result")
		}
		if err != nil {
			return nil
		}
	}
}

type jsonRun struct {
	decoder    *json.Decoder
	r          *Result
	run        *testRun
	results    int
	sawResults bool
}

// object reads one run, key by key, so that what stands before a cut counts.
func (j *jsonRun) object() error {
	open, err := j.decoder.Token()
	if err != nil {
		return err
	}
	if open != json.Delim('{') {
		return fmt.Errorf("%v instead of an object", open)
	}
	for j.decoder.More() {
		key, err := j.decoder.Token()
		if err != nil {
			return err
		}
		switch key {
		case "args":
			err = decoded(j, j.args)
		case "env":
			err = decoded(j, j.variables)
		case "config":
			err = decoded(j, j.config)
		case "nccl_version":
			err = decoded(j, func(code jsonNumber) { j.run.metadata.NCCL = versionOf(int(code)) })
		case "start_time":
			err = decoded(j, func(start any) {
				text, _ := start.(string)
				j.run.metadata.Time = quoted([]byte(text))
			})
		case "results":
			j.sawResults = true
			err = j.list()
		case "out_of_bounds":
			err = decoded(j, func(out jsonOutOfBounds) { j.run.failed = out.Count > 0 })
		default:
			err = decoded(j, func(json.RawMessage) {})
		}
		if err != nil {
			return err
		}
	}
	_, err = j.decoder.Token()
	return err
}

// decoded takes the next value, if it can be read.
func decoded[T any](j *jsonRun, take func(T)) error {
	var v T
	if err := j.decoder.Decode(&v); err != nil {
		return err
	}
	take(v)
	return nil
}

func (j *jsonRun) variables(env []string) {
	j.run.complete, j.run.variables = true, variables{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if named.MatchString(name) { // nccl-tests writes all that there is
			j.run.variables[name] = value[:min(len(value), longestValue)]
		}
	}
}

func (j *jsonRun) args(args []string) {
	j.run.mentions.args = argsOf(strings.Join(args, " "))
	for _, arg := range args {
		if name := path.Base(arg); strings.HasSuffix(name, "_perf") {
			j.run.program = name
		}
	}
}

func (j *jsonRun) config(c jsonConfig) {
	j.run.set(j.r, 0, c.settings)
	for _, d := range c.Devices {
		j.run.devices.add(strconv.Itoa(d.Group), strconv.Itoa(d.Rank), d.Host, strconv.Itoa(d.Rank), "")
		j.run.metadata.gpu(d.Info)
	}
	if c.Blocking == "true" {
		j.run.Blocking = 1
		j.r.note(0, "times include waiting after each operation (-z)")
	}
}

// list reads the results. One that the file's end cuts is counted as truncated.
func (j *jsonRun) list() error {
	open, err := j.decoder.Token()
	if err != nil {
		return err
	}
	if open != json.Delim('[') {
		return fmt.Errorf("results is %v instead of a list", open)
	}
	for j.decoder.More() {
		var result jsonResult
		result.Root = -1
		j.results++
		if err := j.decoder.Decode(&result); err != nil {
			if isCut(err) {
				j.r.reject(0, 1, rejectTruncated)
			}
			return err
		}
		j.keep(result)
		if err := j.r.tooMany(len(j.run.rows)); err != nil {
			return err
		}
	}
	_, err = j.decoder.Token()
	return err
}

func (j *jsonRun) keep(result jsonResult) {
	base := row{count: result.Count, root: -1}
	if result.Root >= 0 {
		base.root = int(result.Root)
	}
	base.Bytes, base.DType, base.RedOp, base.Config = result.Size, result.Type, result.RedOp, noLabel
	base.Source = fmt.Sprintf("%s#%d", j.r.File, j.results)
	if base.RedOp == "none" {
		base.RedOp = ""
	}
	for i, half := range []*jsonHalf{result.OutOfPlace, result.InPlace} {
		if half == nil {
			continue
		}
		row := base
		row.InPlace = i == 1
		row.checked = half.Wrong != nil
		row.Micros = math.NaN()
		switch {
		case half.CPUTime != nil:
			row.reason = rejectCPUTime
		case half.Time != nil:
			row.Micros = float64(*half.Time)
		}
		row.AlgBW, row.BusBW = knownBandwidth(float64(half.AlgBW)), knownBandwidth(float64(half.BusBW))
		if row.checked && row.reason == "" && float64(*half.Wrong) != 0 { // NaN is not 0 either
			row.reason = rejectFailed
		}
		row.check()
		j.run.rows = append(j.run.rows, row)
	}
}
