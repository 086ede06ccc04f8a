package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// jsonRun reads an object of nccl-tests' -J, versions 1 to 3. Keys of the summary were misspelt in 2.17.5 to 2.17.8,
// and versions 2 and 3 add statistics of each iteration: nothing depends on these.
type jsonRun struct {
	*json.Decoder
	r       *Result
	run     *testRun
	said    map[string]any // all but the results
	results int            // -1: there is no list of them
}

// readJSON reads one or more objects. A file that was cut off keeps the results
// before the cut, as crashed runs of nccl-tests before 2.18.4 leave it.
func readJSON(in *bufio.Reader, r *Result, closed func(*testRun)) error {
	decoder := json.NewDecoder(in)
	decoder.UseNumber()
	for n := 0; ; n++ {
		j := jsonRun{decoder, r, newRun(r.File, 0, noMark), map[string]any{}, -1}
		j.run.ended = true
		err := j.each('{', j.member)
		if n > 0 && err == io.EOF {
			return nil
		}
		if err != nil && !isCut(err) {
			return fmt.Errorf("%s: at byte %d: %w", r.File, decoder.InputOffset(), wording.JSONError(err))
		}
		if err != nil {
			r.note(0, noteCutJSON)
		}
		if j.results < 0 && (n == 0 || err == nil) {
			return fmt.Errorf("%s: %w", r.File, errNotSweep)
		}
		j.tell()
		closed(j.run)
		if len(j.run.rows) == 0 {
			r.note(0, noteNoResult)
		}
		if err != nil {
			return nil
		}
	}
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

// member reads a member of the object: the results, or another one.
func (j *jsonRun) member() error {
	key, err := j.Token()
	if err != nil {
		return err
	}
	if key == "results" {
		j.results = 0
		return j.each('[', j.result)
	}
	var said any
	err = j.Decode(&said)
	j.said[fmt.Sprint(key)] = said
	return err
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
		m := newRow(0)
		m.InPlace, m.Source = placement == "in_place", fmt.Sprintf("%s#%d", j.r.File, j.results)
		for _, name := range []string{"size", "count", "type", "redop", "root"} {
			half[name] = result[name]
		}
		for _, name := range sortedKeys(half) {
			c, known := columnByName[fold(name)]
			if !known || half[name] == nil || columns[c].read == nil {
				continue
			}
			if wrong := columns[c].read(&m, strings.TrimSpace(fmt.Sprint(half[name]))); wrong != "" {
				m.reason = rejectMalformed
				j.r.note(0, "result %d: %s: %s", j.results, name, wrong)
			}
		}
		j.run.rows = append(j.run.rows, m)
	}
	return j.r.tooMany(len(j.run.rows))
}

// listOf returns what a list holds that is of a type.
func listOf[T any](of any) (all []T) {
	values, _ := of.([]any)
	for _, v := range values {
		if v, is := v.(T); is {
			all = append(all, v)
		}
	}
	return all
}

// tell gives the run what stands beside its results.
func (j *jsonRun) tell() {
	u, args := j.run, listOf[string](j.said["args"])
	number := func(of any) int { return atoi(fmt.Sprint(of)) }
	config, _ := j.said["config"].(map[string]any)
	outOfBounds, _ := j.said["out_of_bounds"].(map[string]any)
	u.failed = number(outOfBounds["count"]) > 0
	u.known.NCCL = versionOf(number(j.said["nccl_version"]))
	if start, is := j.said["start_time"].(string); is {
		u.known.Time = quoted([]byte(start))
	}
	if i := slices.IndexFunc(args, func(arg string) bool { return strings.HasSuffix(arg, "_perf") }); i >= 0 {
		u.program = path.Base(args[i])
	}
	u.settings = settingsOf(strings.Join(args, " "), onCommand)
	if env, is := j.said["env"].([]any); is {
		u.complete = true
		for _, v := range listOf[string](env) {
			name, value, _ := strings.Cut(v, "=")
			if named.MatchString(name) { // nccl-tests writes all that there is
				u.settings[name] = value[:min(len(value), longestValue)]
			}
		}
	}
	for _, o := range options {
		if n, is := config[o.json].(json.Number); is {
			u.settings[o.name] = n.String()
		}
	}
	if atoi(u.settings["-G"]) > 0 {
		j.r.note(0, noteGraphs)
	}
	if config["blocking_collectives"] == "true" {
		u.settings["-z"] = "1"
		j.r.note(0, noteBlocking)
	}
	for _, d := range listOf[map[string]any](config["devices"]) {
		rank := strconv.Itoa(number(d["rank"]))
		host, _ := d["hostname"].(string)
		model, _ := d["device_info"].(string)
		u.devices.add(strconv.Itoa(number(d["group"])), rank, host, rank, "", model)
	}
}
