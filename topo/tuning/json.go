package tuning

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// The compact form, written by Write:
//
//	{"format": "nccl-tuner-go/tuning", "version": 1, "nccl": "2.30.7", "system": "...", "source": "...",
//	 "tunings": [{"nodes": 2, "ranks": 16, ...,
//	   "max_threads": {"ring": [512, 640, 512]},         per protocol LL, LL128, Simple
//	   "thread_thresholds": {"ring": [128, 8, 64]},      bytes
//	   "latency_us": {"allreduce": {"ring": [..]}},
//	   "bandwidth_gbps": {"allreduce": {"ring": [..]}}}]}
//
// What is left out is 0. Keys are CollNames and AlgoNames.
const (
	tuningFormat  = "nccl-tuner-go/tuning"
	tuningVersion = 1
	maxTuningFile = 64 << 20
)

type perProto[T any] [nccl.NumProtos]T

type tuningFile struct {
	Format  string        `json:"format"`
	Version int           `json:"version"`
	NCCL    string        `json:"nccl"`
	System  string        `json:"system,omitempty"`
	Source  string        `json:"source,omitempty"`
	Tunings []tuningEntry `json:"tunings"`
}

type tuningEntry struct {
	Nodes         int  `json:"nodes"`
	Ranks         int  `json:"ranks"`
	Channels      int  `json:"channels"`
	NVLSChannels  int  `json:"nvls_channels,omitempty"`
	MaxLocalRanks int  `json:"max_local_ranks,omitempty"`
	MinLocalRanks int  `json:"min_local_ranks,omitempty"`
	MinCompCap    int  `json:"min_comp_cap"`
	CPUArch       int  `json:"cpu_arch"`
	NVLS          bool `json:"nvls,omitempty"`
	CollNet       bool `json:"collnet,omitempty"`
	CollNetHeads  int  `json:"collnet_heads,omitempty"`

	MinNetBW   float32 `json:"min_net_gbps,omitempty"`
	RingNVLink bool    `json:"ring_nvlink,omitempty"`

	MaxThreads       map[string]perProto[int]                `json:"max_threads"`
	ThreadThresholds map[string]perProto[int64]              `json:"thread_thresholds"`
	Latency          map[string]map[string]perProto[float32] `json:"latency_us"`
	Bandwidth        map[string]map[string]perProto[float32] `json:"bandwidth_gbps"`
}

// Read reads a tuning file: the compact form of Write, or a dump of NCCL's own tables (an object
// "nodes" keyed by number of hosts, with arrays "lat" and "bw" per collective, algorithm and protocol). name is for
// messages. All errors of a file are reported together, up to 20.
func Read(r io.Reader, name string) (*Set, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxTuningFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > maxTuningFile {
		return nil, fmt.Errorf("%s: larger than %d MiB, not a tuning file", name, maxTuningFile>>20)
	}
	var head struct {
		Format string          `json:"format"`
		Nodes  json.RawMessage `json:"nodes"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, jsonError(name, data, err)
	}
	var set *Set
	switch {
	case head.Format == tuningFormat:
		set, err = readCompactTuning(name, data)
	case head.Format == "" && head.Nodes != nil:
		set, err = readDumpedTuning(name, data)
	default:
		return nil, fmt.Errorf(`%s: neither "format": %q nor a dump of NCCL's tables with "nodes"`, name, tuningFormat)
	}
	if err != nil {
		return nil, err
	}
	set.sort()
	if err := validate(name, set); err != nil {
		return nil, err
	}
	return set, nil
}

func readCompactTuning(name string, data []byte) (*Set, error) {
	var f tuningFile
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return nil, jsonError(name, data, err)
	}
	if f.Version != tuningVersion {
		return nil, fmt.Errorf("%s: version %d, this program reads version %d", name, f.Version, tuningVersion)
	}
	version, err := readRelease(name, f.NCCL)
	if err != nil {
		return nil, err
	}
	set := &Set{System: f.System, Source: f.Source, NCCL: version}
	var errs []error
	for _, e := range f.Tunings {
		t := &Tuning{
			NCCL:   version,
			NNodes: e.Nodes, NRanks: e.Ranks, NChannels: e.Channels, NVLSChannels: e.NVLSChannels,
			MaxLocalRanks: e.MaxLocalRanks, MinCompCap: e.MinCompCap, CPUArch: e.CPUArch,
			NVLS: e.NVLS, CollNet: e.CollNet, CollNetHeads: e.CollNetHeads,
			MinLocalRanks: e.MinLocalRanks, MinNetBW: e.MinNetBW, RingNVLink: e.RingNVLink,
		}
		at := fmt.Sprintf("%s: %d nodes", name, e.Nodes)
		errs = append(errs,
			fillAlgos(at+": max_threads", &t.MaxThreads, e.MaxThreads),
			fillAlgos(at+": thread_thresholds", &t.ThreadThresholds, e.ThreadThresholds),
			fillColls(at+": latency_us", &t.Latencies, e.Latency),
			fillColls(at+": bandwidth_gbps", &t.Bandwidths, e.Bandwidth))
		set.Tunings = append(set.Tunings, t)
	}
	return set, errors.Join(errs...)
}

// readRelease reads whose rules hold for a file; one that does not say has those of the reference.
func readRelease(name, text string) (nccl.Version, error) {
	if text == "" {
		return nccl.Reference, nil
	}
	v, err := nccl.ParseVersion(text)
	if err != nil {
		return 0, fmt.Errorf("%s: nccl: %w", name, err)
	}
	return v, nil
}

func fillAlgos[T any](at string, dst *nccl.PerCell[T], src map[string]perProto[T]) error {
	var errs []error
	for name, v := range src {
		a := slices.Index(nccl.Algos.Known, name)
		if a < 0 {
			errs = append(errs, fmt.Errorf("%s: unknown algorithm %q (known: %v)", at, name, nccl.Algos.Known))
			continue
		}
		dst[a] = v
	}
	return errors.Join(errs...)
}

func fillColls(at string, dst *[nccl.NumColls]nccl.PerCell[float32], src map[string]map[string]perProto[float32]) error {
	var errs []error
	for name, v := range src {
		c := slices.Index(nccl.Colls.Known, name)
		if c < 0 {
			errs = append(errs, fmt.Errorf("%s: unknown collective %q (known: %v)", at, name, nccl.Colls.Known))
			continue
		}
		errs = append(errs, fillAlgos(at+": "+name, &dst[c], v))
	}
	return errors.Join(errs...)
}

// Write writes the compact form. Equal sets give equal bytes.
func Write(w io.Writer, set *Set) error {
	f := tuningFile{Format: tuningFormat, Version: tuningVersion, NCCL: set.NCCL.String(), System: set.System, Source: set.Source}
	for _, t := range set.Tunings {
		e := tuningEntry{
			Nodes: t.NNodes, Ranks: t.NRanks, Channels: t.NChannels, NVLSChannels: t.NVLSChannels,
			MaxLocalRanks: t.MaxLocalRanks, MinCompCap: t.MinCompCap, CPUArch: t.CPUArch,
			NVLS: t.NVLS, CollNet: t.CollNet, CollNetHeads: t.CollNetHeads,
			MinLocalRanks: t.MinLocalRanks, MinNetBW: t.MinNetBW, RingNVLink: t.RingNVLink,
			MaxThreads:       algosByName(t.MaxThreads),
			ThreadThresholds: algosByName(t.ThreadThresholds),
			Latency:          map[string]map[string]perProto[float32]{},
			Bandwidth:        map[string]map[string]perProto[float32]{},
		}
		for c, name := range nccl.Colls.Known {
			usable := t.Latencies[c]
			for a := range usable {
				for p := range usable[a] {
					if t.Bandwidths[c][a][p] == 0 {
						usable[a][p] = 0
					}
				}
			}
			e.Latency[name] = algosByName(usable)
			e.Bandwidth[name] = algosByName(t.Bandwidths[c])
		}
		f.Tunings = append(f.Tunings, e)
	}
	text, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return fmt.Errorf("writing tuning: %w", err)
	}
	_, err = w.Write(append(joinShortArrays(text), '\n'))
	return err
}

func algosByName[T int | int64 | float32](v nccl.PerCell[T]) map[string]perProto[T] {
	m := map[string]perProto[T]{}
	for a, row := range v {
		if row != [nccl.NumProtos]T{} {
			m[nccl.Algos.Known[a]] = row
		}
	}
	return m
}

// joinShortArrays puts arrays of numbers on one line, so that a person can read the tables.
func joinShortArrays(text []byte) []byte {
	var out []byte
	for len(text) > 0 {
		open := bytes.IndexByte(text, '[')
		if open < 0 {
			break
		}
		out = append(out, text[:open+1]...)
		text = text[open+1:]
		end := bytes.IndexAny(text, "[]{\"")
		if end < 0 || text[end] != ']' {
			continue
		}
		for i, field := range bytes.Fields(text[:end]) {
			if i > 0 {
				out = append(out, ' ')
			}
			out = append(out, field...)
		}
		text = text[end:]
	}
	return append(out, text...)
}
