package command

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// queryGrid asks about collectives, communicators and sizes, as show and diff do. Use open, then each.
type queryGrid struct {
	grid  cli.CallFlags
	from  ncclchoice.Flags
	asked *ask.Asker

	colls  []nccl.Coll
	comms  []policy.Comm
	sizes  []uint64
	ranges bool     // the sizes are samples
	notes  []string // about the policies and models
}

// registerCall adds the flags for what else a call is than its collective and size.
func registerCall(cmd *cobra.Command, call *ask.Question) {
	cmd.Flags().IntVar(&call.PipeOps, "pipe-ops", 1, "ask as for a group of so many operations, NCCL's numPipeOps")
	cmd.Flags().IntVar(&call.RegBuff, "reg-buff", 0, "1: ask as for registered buffers")
}

// checkCall checks what they were set to.
func checkCall(call ask.Question) error {
	if call.PipeOps < 1 || call.RegBuff < 0 || call.RegBuff > 1 {
		return cli.Usagef("--pipe-ops %d --reg-buff %d (allowed: 1 or more; 0 or 1)", call.PipeOps, call.RegBuff)
	}
	return nil
}

// open parses the flags and reads the files.
func (s *queryGrid) open(by ...ask.Decider) (err error) {
	if s.colls, err = s.grid.ParseColls(); err != nil {
		return err
	}
	if s.sizes, s.ranges, err = s.grid.ParseSizes(); err != nil {
		return err
	}
	if s.asked, err = ask.NewAsker(s.from, by...); err != nil {
		return err
	}
	named, err := s.grid.ParseComms(s.asked.Files.Comms())
	for _, c := range named {
		s.comms = append(s.comms, s.asked.Comm(c))
	}
	return err
}

// each visits every collective on every communicator, with the sizes to ask about.
func (s *queryGrid) each(visit func(q ask.Question, sizes []uint64) error) error {
	for _, coll := range s.colls {
		for _, comm := range s.comms {
			sizes := s.sizes
			if s.ranges {
				sizes = s.asked.Files.Sizes(sizes, coll, comm.Comm)
			}
			if err := visit(ask.Question{Call: nccl.Call{Coll: coll}, Comm: comm}, sizes); err != nil {
				return err
			}
		}
	}
	return nil
}

// note prints what a person should know about the answers.
func (s *queryGrid) note(w io.Writer) {
	cli.Notes(w, s.notes...)
	s.asked.Note(w, s.comms)
}
