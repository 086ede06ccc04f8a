package main

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/agree"
)

// inWords says why a change did not come, and what to do about it.
func inWords(c *communicator, d *agree.Decision) (why, remedy string) {
	const byItself = "nothing: the ranks try it again by themselves, at first after 1 s, later after up to 60 s"
	who := fmt.Sprintf("slot %d", d.By)
	for _, m := range c.members {
		if m.slot == d.By {
			who = fmt.Sprintf("%s (slot %d)", m, m.slot)
		}
	}
	switch d.Abort {
	case agree.Late:
		return fmt.Sprintf("%s heard of it only at its call %d, beyond the checkpoint", who, d.Calls), byItself + ", with more time ahead"
	case agree.Stall, agree.Slow:
		return fmt.Sprintf("%s came near the switch while some ranks had not acknowledged yet", who),
			byItself + ", with more time ahead. If it goes on, a rank lags far behind the others or is stopped"
	case agree.Superseded:
		return "the file changed again meanwhile", "nothing: the later version is next"
	case agree.CannotStage:
		return fmt.Sprintf("%s cannot use it: %s", who, d.Detail), "mend what it says, then save the file again; after 5 such refusals the ranks wait for that"
	case agree.OtherBuild:
		return fmt.Sprintf("the same files mean something else to %s: it runs another build of the library, or its node is not like the others", who),
			"install the same library on all nodes and start the job anew; compare the versions that the ranks log at the start"
	case agree.Leaving:
		return who + " was ending the communicator", "nothing"
	case agree.Misaligned:
		return "the ranks have not made the same calls, so that no call is the same for all", "communicators that are created from now on take the file as it is; if it happens again, report it: the job or this tuner has a defect"
	case agree.Duplicate:
		return "a second communicator with the same id exists, or this one's id was used before", "communicators that are created from now on take the file as it is"
	}
	return fmt.Sprintf("%s: %s", who, d), "compare the version of tunefit with the library's"
}
