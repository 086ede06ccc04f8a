package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// report is the file of -J, version 3, written at the end of the run. A nil report writes nothing.
type report struct {
	file    *os.File
	doc     object
	results []object
}

type object map[string]any

// openReport creates the file, or one with a number where there is one already. Its name has to end as JSON does.
func (t *test) openReport() *report {
	name := t.options.output
	if !strings.EqualFold(filepath.Ext(name), ".json") {
		return nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	for try := 0; errors.Is(err, fs.ErrExist); try++ {
		name = fmt.Sprintf("%s.%d", t.options.output, try)
		file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	}
	if err != nil {
		t.print("# skipping json output; %s not accessible\n", name)
		return nil
	}
	t.print("# Writing JSON output to %s\n", name)
	return &report{file: file, doc: object{}}
}

// begin adds what is known before NCCL starts. Of each process only the first rank is listed.
func (r *report) begin(t *test) {
	if r == nil {
		return
	}
	o := &t.options
	var devices []device
	for process := range t.world.size {
		devices = append(devices, t.device(process*t.world.perRank))
	}
	config := object{
		"nthreads": o.threads, "ngpus": o.gpus, "minimum_bytes": o.minBytes, "maximum_bytes": o.maxBytes,
		"step_bytes": o.stepBytes, "warmup_iters": o.warmup, "iterations": o.iters,
		"aggregated_iterations": o.aggregated, "validation": o.check, "graph": o.graphs,
		"blocking_collectives": fmt.Sprint(o.blocking != 0), "per_iter_timing": "false",
		"per_iter_skip": 0, "parallel_init": "false", "devices": devices,
	}
	if o.stepFactor > 1 {
		delete(config, "step_bytes")
		config["step_factor"] = o.stepFactor
	}
	r.doc = object{
		"version": 3, "start_time": time.Now().Format(time.DateTime), "args": t.args, "env": os.Environ(),
		"nccl_version": int(t.settings.nccl), "config": config,
	}
}

// measure begins the results.
func (r *report) measure() {
	if r != nil {
		r.results = []object{}
	}
}

// row begins a result, to which half adds the times.
func (r *report) row(t *test, l line) {
	if r != nil {
		r.results = append(r.results, object{
			"size": l.bytes, "count": l.count, "type": l.dtype, "redop": l.op, "root": fmt.Sprintf("%6d", l.root),
			"actual_iterations": t.options.iters, "experiment_name": "",
		})
	}
}

func (r *report) half(t *test, inPlace bool, h half) {
	if r == nil {
		return
	}
	name, time := "out_of_place", "time"
	if inPlace {
		name = "in_place"
	}
	if t.options.cpuTime != 0 {
		time = "cpu_time"
	}
	times := object{time: double(h.micros), "alg_bw": double(h.algBW), "bus_bw": double(h.busBW), "nwrong": nil}
	if t.options.check > 0 {
		times["nwrong"] = double(h.wrong)
	}
	r.results[len(r.results)-1][name] = times
}

// footer adds what comes after the results.
func (r *report) footer(t *test) {
	if r != nil {
		r.doc["out_of_bounds"] = object{"count": t.wrong, "okay": fmt.Sprint(t.wrong == 0)}
		r.doc["average_bus_bandwidth"] = object{"bandwidth": double(t.average()), "okay": "unchecked"}
		r.doc["errors"] = []string{""}
	}
}

// close writes the file, also after an error of NCCL. The file of a run that died is cut.
func (r *report) close(cut bool) {
	if r == nil {
		return
	}
	r.doc["end_time"] = time.Now().Format(time.DateTime)
	if r.results != nil {
		r.doc["results"] = r.results
	}
	text, _ := json.Marshal(r.doc) // of numbers and texts: it cannot fail
	if cut {
		text = text[:len(text)-1]
	}
	_, _ = r.file.Write(text)
	r.file.Close()
}

// double is C's %lf, or a word where there is no number.
type double float64

// MarshalJSON implements json.Marshaler.
func (v double) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(v)) {
		return []byte(`"nan"`), nil
	}
	return fmt.Appendf(nil, "%f", v), nil
}
