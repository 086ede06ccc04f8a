package livejobs

import (
	"cmp"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
)

// commName names a communicator and its job.
type commName struct {
	Rendezvous   string `json:"rendezvous"`
	Job          string `json:"job,omitempty"` // see Communicator.Job
	Communicator string `json:"communicator"`
}

func (c *Communicator) name() commName { return commName{c.Rendezvous, c.Job, c.Name} }

func (c commName) String() string { return c.prefix() + c.Communicator }

// prefix begins a line about the communicator. It is "" where the named rendezvous is the job's own.
func (c commName) prefix() string {
	if c.Job == "" {
		return ""
	}
	return "job " + c.Job + ": "
}

// job names the job in a list of jobs.
func (c commName) job() string { return cmp.Or(c.Job, c.Rendezvous) }

// listOf lists communicators by their jobs, for a line.
func listOf(all []commName) string {
	var jobs []string
	for _, job := range groups(all, func(c commName) string { return c.Rendezvous }) {
		var names []string
		for _, c := range job {
			names = append(names, c.Communicator)
		}
		jobs = append(jobs, job[0].prefix()+few(names))
	}
	return cli.Few(jobs, 8, "; ")
}

// groups splits a list by a key, in the list's order.
func groups[T any](all []T, key func(T) string) (lists [][]T) {
	index := map[string]int{}
	for _, x := range all {
		at, known := index[key(x)]
		if !known {
			at = len(lists)
			index[key(x)] = at
			lists = append(lists, nil)
		}
		lists[at] = append(lists[at], x)
	}
	return lists
}
