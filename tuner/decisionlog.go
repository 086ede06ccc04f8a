package tuner

import (
	"fmt"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// decisionLog writes one line per decision, for NCCL_TUNER_LOG=decisions. The
// line is for people; its last word is always what decided: a place in the
// policy file, or NCCL.
type decisionLog struct {
	log    Log
	policy *policy.Policy
}

func (l *decisionLog) add(q policy.Query, d policy.Decision) {
	what := fmt.Sprintf("%s %s, %d pipelined", q.Coll, policy.FormatBytes(q.Bytes), q.PipeOps)
	if d.Rule < 0 {
		l.log.Infof("%s: no row matches, decided by NCCL", what)
		return
	}
	l.log.Infof("%s: %s, decided by %s:%d", what, choice(d), l.policy.File, l.policy.Rules[d.Rule].Line)
}

func choice(d policy.Decision) string {
	var s strings.Builder
	switch {
	case d.Algo < 0:
		s.WriteString("NCCL's choice")
	default:
		fmt.Fprintf(&s, "%s/%s", policy.Algo(d.Algo), policy.Proto(d.Proto))
	}
	if d.Channels > 0 {
		fmt.Fprintf(&s, ", %d channels", d.Channels)
	}
	if d.ChunkBytes > 0 {
		fmt.Fprintf(&s, ", chunks of %s", policy.FormatBytes(d.ChunkBytes))
	}
	return s.String()
}
