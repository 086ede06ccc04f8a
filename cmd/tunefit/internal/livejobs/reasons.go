package livejobs

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
)

// inWords says why a change did not come, and what to do about it.
func (c *Communicator) inWords(d *agree.Decision) (why, remedy string) {
	const byItself = "nothing: the ranks try it again by themselves, at first after 1 s, later after up to 60 s"
	who := fmt.Sprintf("slot %d", d.By)
	for _, m := range c.Members {
		if m.Index == d.By {
			who = fmt.Sprintf("%s (%s)", m, m.place())
		}
	}
	switch d.Abort {
	case agree.Late:
		return fmt.Sprintf("%s heard of it only at its call %d, beyond the checkpoint", who, d.Calls),
			byItself + ", with more time ahead"
	case agree.Slow:
		return fmt.Sprintf("%s came near the switch while some ranks had not acknowledged yet", who),
			byItself + ", with more time ahead. If it goes on, a rank lags far behind the others or is stopped"
	case agree.Stall:
		return fmt.Sprintf("%s waited for the others at the switch, and not all came soon enough", who),
			byItself + ". If it goes on, the ranks use their communicators in different orders, or one process asks " +
				"several ranks about groups of calls from one thread"
	case agree.Alike:
		return "all calls of the communicator were alike, so nothing would have told that a rank had made one more " +
				"than the others",
			"nothing: the ranks try it again once a call differs from the one before it. NCCL_TUNER_RELOAD=uniform " +
				"lets it come all the same"
	case agree.Superseded:
		return "another version was asked for meanwhile", "nothing: that version is next"
	case agree.CannotStage:
		return fmt.Sprintf("%s cannot use it: %s", who, d.Detail),
			"mend what it says, then save the file again; after 5 such refusals the ranks wait for that"
	case agree.OtherBuild:
		return fmt.Sprintf("the same files mean something else to %s: it runs another build of the library, or its "+
				"node is not like the others", who),
			"install the same library on all nodes and start the job anew; compare the versions that the ranks log " +
				"at the start"
	case agree.Leaving:
		return who + " was ending the communicator", "nothing"
	case agree.Misaligned:
		return "the ranks have not made the same calls since init",
			"call ncclGroupSimulateEnd on all ranks, with the same collectives, or on none: on some only, it keeps " +
				"them apart. The ranks try again by themselves, and the change comes once all have made the same calls"
	case agree.Duplicate:
		return "a second communicator with the same id exists, or this one's id was used before",
			"communicators that are created from now on take the file as it is"
	}
	return fmt.Sprintf("%s: %s", who, d), "compare the version of tunefit with the library's"
}
