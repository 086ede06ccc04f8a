package main

import (
	"fmt"
	"io"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// survey asks about collectives, communicators and sizes, as show and diff do. Use open, then each.
type survey struct {
	grid  commspec.Flags
	from  ncclchoice.Flags
	files ask.Files
	asked *ask.Asker

	colls  []nccl.Coll
	shapes []commspec.Shape
	sizes  []uint64
	ranges bool     // the sizes are samples
	notes  []string // on the deciders
}

// open reads what the flags name and the deciders' files.
func (s *survey) open(by ...ask.Decider) (err error) {
	if s.colls, err = s.grid.ParseColls(); err != nil {
		return err
	}
	if s.sizes, s.ranges, err = s.grid.ParseSizes(); err != nil {
		return err
	}
	if s.files, err = ask.ReadAll(by...); err != nil {
		return err
	}
	if s.shapes, err = s.grid.ParseShapes(s.files.Shapes()); err != nil {
		return err
	}
	if s.asked, err = ask.NewAsker(s.from, by...); err != nil {
		return err
	}
	for i := range s.shapes {
		s.shapes[i] = s.shapes[i].Through(s.asked.ABI)
	}
	return nil
}

// each visits every collective on every communicator, with the sizes that matter there.
func (s *survey) each(visit func(nccl.Coll, commspec.Shape, []uint64) error) error {
	for _, coll := range s.colls {
		for _, shape := range s.shapes {
			sizes := s.sizes
			if s.ranges {
				sizes = s.files.Sizes(sizes, coll, shape)
			}
			if err := visit(coll, shape, sizes); err != nil {
				return err
			}
		}
	}
	return nil
}

// note says what is to be known of the answers.
func (s *survey) note(w io.Writer) {
	for _, note := range s.notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	s.asked.Note(w, s.shapes)
}
