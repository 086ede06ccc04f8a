package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// The JSON of nccl-tests' -J, versions 1 to 3. Only what is used is named here;
// versions 2 and 3 add statistics per iteration. Keys of the summary were
// misspelt in 2.17.5 to 2.17.8, so nothing depends on them.
type jsonConfig struct {
	Devices []struct {
		Rank  int    `json:"rank"`
		Group int    `json:"group"`
		Host  string `json:"hostname"`
		Info  string `json:"device_info"`
	} `json:"devices"`
	Blocking string `json:"blocking_collectives"`
}

// readJSON reads one or more objects. A file that was cut off keeps the results
// before the cut, as crashed runs of nccl-tests before 2.18.4 leave it.
func readJSON(in *bufio.Reader, r *Result, closed func(*testRun)) error {
	decoder := json.NewDecoder(in)
	decoder.UseNumber()
	for n := 0; ; n++ {
		j := jsonRun{Decoder: decoder, r: r, run: newRun(r.File, 0, nil)}
		j.run.footer = true
		err := j.object()
		if n > 0 && err == io.EOF {
			return nil
		}
		if err != nil && !isCut(err) {
			return fmt.Errorf("%s: at byte %d: %w", r.File, decoder.InputOffset(), wording.JSONError(err))
		}
		if err != nil {
			r.note(0, noteCutJSON)
		}
		if !j.sawResults && (n == 0 || err == nil) {
			return fmt.Errorf("%s: %w", r.File, errNotSweep)
		}
		closed(j.run)
		if len(j.run.rows) == 0 {
			r.note(0, noteNoResult)
		}
		if err != nil {
			return nil
		}
	}
}

type jsonRun struct {
	*json.Decoder
	r          *Result
	run        *testRun
	results    int
	sawResults bool
}

// object reads one run, key by key, so that what stands before a cut counts.
func (j *jsonRun) object() error {
	return j.each('{', func() error {
		key, err := j.Token()
		if err != nil {
			return err
		}
		switch key {
		case "args":
			return decoded(j, j.args)
		case "env":
			return decoded(j, j.variables)
		case "config":
			var text json.RawMessage
			if err := j.Decode(&text); err != nil {
				return err
			}
			return j.config(text)
		case "nccl_version":
			return decoded(j, func(code any) { j.run.known.NCCL = versionOf(atoi(fmt.Sprint(code))) })
		case "start_time":
			return decoded(j, func(start any) { j.run.known.Time = quoted([]byte(fmt.Sprint(start))) })
		case "results":
			j.sawResults = true
			return j.each('[', j.result)
		case "out_of_bounds":
			return decoded(j, func(out struct{ Count int }) { j.run.failed = out.Count > 0 })
		}
		return decoded(j, func(json.RawMessage) {})
	})
}

// each reads what an object or a list holds.
func (j *jsonRun) each(open json.Delim, read func() error) error {
	if begin, err := j.Token(); err != nil {
		return err
	} else if begin != open {
		return fmt.Errorf("%v instead of %s", begin, map[json.Delim]string{'{': "an object", '[': "a list"}[open])
	}
	for j.More() {
		if err := read(); err != nil {
			return err
		}
	}
	_, err := j.Token()
	return err
}

// decoded takes the next value, if it can be read.
func decoded[T any](j *jsonRun, take func(T)) error {
	var v T
	if err := j.Decode(&v); err != nil {
		return err
	}
	take(v)
	return nil
}

func (j *jsonRun) variables(env []string) {
	j.run.complete, j.run.heading.variables = true, variables{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if named.MatchString(name) { // nccl-tests writes all that there is
			j.run.heading.variables[name] = value[:min(len(value), longestValue)]
		}
	}
}

func (j *jsonRun) args(args []string) {
	j.run.settings = with(settingsOf(strings.Join(args, " "), onCommand), j.run.settings)
	for _, arg := range args {
		if name := path.Base(arg); strings.HasSuffix(name, "_perf") {
			j.run.program = name
		}
	}
}

func (j *jsonRun) config(text json.RawMessage) error {
	var c jsonConfig
	var numbers map[string]any
	if err := errors.Join(json.Unmarshal(text, &c), json.Unmarshal(text, &numbers)); err != nil {
		return err
	}
	told := settings{}
	for _, o := range options {
		if n, is := numbers[o.json].(float64); is {
			told[o.name] = int(n)
		}
	}
	if told["-G"] > 0 {
		j.r.note(0, noteGraphs)
	}
	if c.Blocking == "true" {
		told["-z"] = 1
		j.r.note(0, noteBlocking)
	}
	j.run.settings = with(j.run.settings, told)
	for _, d := range c.Devices {
		j.run.devices.add(strconv.Itoa(d.Group), strconv.Itoa(d.Rank), d.Host, strconv.Itoa(d.Rank), "", d.Info)
	}
	return nil
}

// result reads one of the results. One that the file's end cuts is counted as truncated.
func (j *jsonRun) result() error {
	var result map[string]any
	j.results++
	if err := j.Decode(&result); err != nil {
		if isCut(err) {
			j.r.reject(0, 1, rejectTruncated)
		}
		return err
	}
	for _, placement := range []string{"out_of_place", "in_place"} {
		half, is := result[placement].(map[string]any)
		if !is {
			continue
		}
		m := csvRow{row: newRow(0)}
		m.InPlace, m.Source = placement == "in_place", fmt.Sprintf("%s#%d", j.r.File, j.results)
		maps.Copy(half, map[string]any{"size": result["size"], "count": result["count"], "type": result["type"],
			"redop": result["redop"], "root": result["root"]})
		for _, name := range slices.Sorted(maps.Keys(half)) {
			c, known := columnByName[fold(name)]
			v := strings.TrimSpace(fmt.Sprint(half[name]))
			if !known || half[name] == nil || csvColumns[c].read == nil {
				continue
			}
			if wrong := csvColumns[c].read(&m, v); wrong != "" {
				m.reason = rejectMalformed
				j.r.note(0, "result %d: %s: %s", j.results, name, wrong)
			}
		}
		j.run.rows = append(j.run.rows, m.row)
	}
	return j.r.tooMany(len(j.run.rows))
}
