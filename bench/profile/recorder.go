package profile

import (
	"fmt"
	"io"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
)

// mostRecorded bounds a recorder's file, which has a few MiB at most.
const mostRecorded = 64 << 20

// Recorder reads the file that the library's recorder leaves of one process.
func (j *Job) Recorder(name string, in io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(in, mostRecorded+1))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > mostRecorded {
		return fmt.Errorf("%s is larger than 64 MiB (needed: a file that the recorder wrote)", name)
	}
	f, err := record.Read(name, text)
	if err != nil {
		return err
	}
	for i := range f.Comms {
		j.recordedComm(process{f.Host, uint64(f.PID)}, &f.Comms[i])
	}
	if f.Left > 0 {
		j.cut = append(j.cut,
			fmt.Sprintf("%s: %d communicators are left out: the recorder keeps the latest of a process", name, f.Left))
	}
	return nil
}

func (j *Job) recordedComm(of process, c *record.Comm) {
	if c.Ranks == 1 {
		j.others["collectives of a single rank"]++
		return
	}
	j.comm(c.ID, of, c.Rank)
	for _, r := range c.Calls {
		entry := j.entry(CallKind{r.Call, c.Comm, bench.CellNamed(r.Algo, r.Proto)})
		f := &j.found[entry]
		if r.Algo == "" {
			r.DecidedBy = ByNoTuner
		}
		f.records += int(r.Calls)
		if r.Calls > f.most { // of several channel counts, or deciders, the one most used
			f.most, f.channels, f.by = r.Calls, r.Channels, r.DecidedBy
		}
	}
	j.unlisted += int(c.Unlisted)
}
