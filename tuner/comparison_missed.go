package tuner

import (
	"context"
	"strings"
	"time"
)

// comparing are the variables by which this rank asks for a comparison. A rank's identity ends
// with them, so that the others know.
func (s settings) comparing() (variables []string) {
	if s.compare != "" {
		variables = append(variables, EnvCompare)
	}
	if s.canary {
		variables = append(variables, EnvCanary)
	}
	return variables
}

// warnOfMissed says what this rank asks for and the rank that compares, which has the first slot,
// does not: nothing would happen. stop ends the wait for that rank.
func (c *Comm) warnOfMissed() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer c.survive("it stays unknown whether the first slot compares")
		for {
			first, err := c.member.Owner(ctx, 0)
			if err == nil && first != "" {
				c.logMissed(first)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(idlePause):
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (c *Comm) logMissed(first string) {
	for _, variable := range c.settings.comparing() {
		if !strings.Contains(first, " "+variable) {
			c.log.Warnf("%s: %s has no effect: it is set on this rank, and not on the rank of the first slot, "+
				"which compares (needed: the same value on all ranks)", c.info, variable)
		}
	}
}
