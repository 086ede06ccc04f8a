package fit

import (
	"cmp"
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Key names a group: what NCCL decides about separately, and what no model
// crosses.
type Key struct {
	Coll nccl.Coll
	nccl.Comm
}

func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Coll, o.Coll), k.Comm.Compare(o.Comm))
}

func (k Key) String() string {
	if k.Ranks%k.Nodes != 0 {
		return fmt.Sprintf("%s, %s", k.Coll, k.Comm)
	}
	return fmt.Sprintf("%s %s", k.Coll, k.Comm)
}
