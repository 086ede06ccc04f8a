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

// report is the file of -J, version 3, written as the run goes on. A nil report writes nothing.
type report struct {
	file *os.File
	rows int
	open string // what ends the lists and objects that are open
}

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
	return &report{file: file, open: "}"}
}

func (r *report) write(format string, args ...any) {
	if r != nil {
		fmt.Fprintf(r.file, format, args...)
	}
}

// text is a value as JSON.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(b)
}

// boolean is a truth as this JSON has it.
func boolean(b bool) string { return text(fmt.Sprint(b)) }

// begin writes what is known before NCCL starts. Of each process only the first rank is listed.
func (r *report) begin(t *test) {
	if r == nil {
		return
	}
	o := &t.options
	r.write(`{"version":3,"start_time":%s,"args":%s,"env":%s,"nccl_version":%d,`, text(time.Now().Format(time.DateTime)), text(t.args), text(os.Environ()), t.settings.nccl)
	step, by := "step_bytes", o.stepBytes
	if o.stepFactor > 1 {
		step, by = "step_factor", o.stepFactor
	}
	r.write(`"config":{"nthreads":%d,"ngpus":%d,"minimum_bytes":%d,"maximum_bytes":%d,"%s":%d,`, o.threads, o.gpus, o.minBytes, o.maxBytes, step, by)
	r.write(`"warmup_iters":%d,"iterations":%d,"aggregated_iterations":%d,"validation":%d,"graph":%d,`, o.warmup, o.iters, o.aggregated, o.check, o.graphs)
	r.write(`"blocking_collectives":%s,"per_iter_timing":"false","per_iter_skip":0,"parallel_init":"false",`, boolean(o.blocking != 0))
	var devices []device
	for process := range t.world.size {
		devices = append(devices, t.device(process*t.world.perRank))
	}
	r.write(`"devices":%s}`, text(devices))
}

// results begins their list.
func (r *report) results() {
	if r != nil {
		r.write(`,"results":[`)
		r.open = "]}"
	}
}

// row begins a result, which halves and endRow go on with.
func (r *report) row(l line) {
	if r == nil {
		return
	}
	if r.rows++; r.rows > 1 {
		r.write(",")
	}
	r.open = "}]}"
	r.write(`{"size":%d,"count":%d,"type":%s,"redop":%s,"root":"%6d"`, l.bytes, l.count, text(l.dtype), text(l.op), l.root)
}

func (r *report) half(t *test, inPlace bool, h half) {
	name, time, wrong := "out_of_place", "time", "null"
	if inPlace {
		name = "in_place"
	}
	if t.options.cpuTime != 0 {
		time = "cpu_time"
	}
	if t.options.check > 0 {
		wrong = fmt.Sprintf("%f", float64(h.wrong))
	}
	r.write(`,"%s":{"%s":%s,"alg_bw":%s,"bus_bw":%s,"nwrong":%s}`, name, time, double(h.micros), double(h.algBW), double(h.busBW), wrong)
}

func (r *report) endRow(t *test) {
	if r != nil {
		r.write(`,"actual_iterations":%d,"experiment_name":""}`, t.options.iters)
		r.open = "]}"
	}
}

// footer writes what comes after the results.
func (r *report) footer(t *test) {
	if r != nil {
		r.write(`],"out_of_bounds":{"count":%d,"okay":%s},"average_bus_bandwidth":{"bandwidth":%s,"okay":"unchecked"},"errors":[""]`,
			t.wrong, boolean(t.wrong == 0), double(t.average()))
		r.open = "}"
	}
}

// close ends the file, also that of a run that NCCL has failed.
func (r *report) close() {
	if r != nil {
		last := len(r.open) - 1
		r.write(`%s,"end_time":%s%s`, r.open[:last], text(time.Now().Format(time.DateTime)), r.open[last:])
		r.file.Close()
	}
}

// double is C's %lf, or a word where there is no number.
func double(v float64) string {
	if math.IsNaN(v) {
		return `"nan"`
	}
	return fmt.Sprintf("%f", v)
}
