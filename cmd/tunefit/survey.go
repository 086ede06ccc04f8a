package main

import (
	"io"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// survey asks about collectives, communicators and sizes, as show and diff do. Use open, then each.
type survey struct {
	grid  commspec.Flags
	from  ncclchoice.Flags
	asked *ask.Asker

	colls  []nccl.Coll
	comms  []policy.Comm
	sizes  []uint64
	ranges bool     // the sizes are samples
	notes  []string // about the policies and models
}

// open parses the flags and reads the files.
func (s *survey) open(by ...ask.Decider) (err error) {
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
func (s *survey) each(visit func(q ask.Question, sizes []uint64) error) error {
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
func (s *survey) note(w io.Writer) {
	cli.Notes(w, s.notes...)
	s.asked.Note(w, s.comms)
}
