// Package record is the format of what the library writes for tunefit: the file in which one process keeps what its
// communicators did (tuner/telemetry, bench/profile), and the lines of its log that programs read.
package record

import (
	"encoding/json"
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Version is the version of the format.
const Version = 1

// Head is the beginning of a file, by which it is recognized among other JSON.
const Head = `{"nccl_tuner_record":`

// File is what one process recorded.
type File struct {
	Version int          `json:"nccl_tuner_record"`
	Host    string       `json:"host"`
	PID     int          `json:"pid"`
	Comms   []CommRecord `json:"communicators"`
	Left    int          `json:"left_out,omitempty"` // communicators that found no room
}

// CommRecord is one communicator as one of its ranks saw it.
type CommRecord struct {
	ID   string `json:"id"` // equal on all ranks
	Rank int    `json:"rank"`
	nccl.Comm
	Calls []Call `json:"calls"`

	Unlisted uint64 `json:"unlisted_calls,omitempty"` // their shape found no room
}

// Call is what the calls of one kind have in common, and how many there were.
type Call struct {
	nccl.Call
	// Algo and Proto are names of what ran. They are empty where the tuner has no say, as in symmetric kernels.
	Algo     string `json:"algorithm,omitempty"`
	Proto    string `json:"protocol,omitempty"`
	Channels int    `json:"channels"`
	Calls    uint64 `json:"calls"`

	// DecidedBy is a row (policy.csv:3), a model or NCCL: the latest that chose what ran. Own is NCCL's own choice.
	// Both are empty where the tuner was not asked, or something else ran.
	DecidedBy string `json:"decided_by,omitempty"`
	Own       string `json:"nccl_alone,omitempty"`
}

// Write replaces the file of this name as a whole.
func (f *File) Write(name string) error {
	f.Version = Version
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return safefile.Write(name, append(text, '\n')) // tunefit leaves hidden files out
}

// Read reads a file and checks its values. name is for messages.
func Read(name string, text []byte) (*File, error) {
	var f File
	if err := json.Unmarshal(text, &f); err != nil {
		return nil,
			fmt.Errorf("%s: not a recorder's file: %w (the recorder writes its files whole: copy it again, or leave "+
				"it out)", name, wording.JSONError(err))
	}
	if f.Version != Version {
		return nil, fmt.Errorf("%s: nccl_tuner_record is %d (known: %d)", name, f.Version, Version)
	}
	for i := range f.Comms {
		if err := f.Comms[i].check(); err != nil {
			return nil, fmt.Errorf("%s: communicator %d: %w", name, i+1, err)
		}
	}
	return &f, nil
}

const (
	mostRanks = 1 << 24
	mostBytes = 1 << 50
	mostCalls = 1 << 50 // a billion a second take two weeks for as many
)

func (c *CommRecord) check() error {
	switch {
	case c.ID == "":
		return fmt.Errorf("id is empty (needed: the communicator's)")
	case c.Ranks < 1 || c.Ranks > mostRanks || c.Nodes < 1 || c.Nodes > c.Ranks:
		return fmt.Errorf("ranks is %d, nodes %d (allowed: 1 rank or more, and 1 node up to as many as ranks)",
			c.Ranks, c.Nodes)
	case c.Rank < 0 || c.Rank >= c.Ranks:
		return fmt.Errorf("rank is %d (allowed: 0 to %d)", c.Rank, c.Ranks-1)
	case c.Unlisted > mostCalls:
		return fmt.Errorf("unlisted_calls is %d (allowed: up to %d)", c.Unlisted, uint64(mostCalls))
	}
	for _, call := range c.Calls {
		if call.Calls > mostCalls {
			return fmt.Errorf("calls is %d (allowed: up to %d)", call.Calls, uint64(mostCalls))
		}
		if call.Bytes < 1 || call.Bytes > mostBytes {
			return fmt.Errorf("bytes is %d (allowed: 1 to 1024T)", call.Bytes)
		}
	}
	return nil
}
