package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// JobHeadline says in a sentence what decisions are worth to a job.
func JobHeadline(w *fit.Worth) string {
	switch {
	case w.Total == 0:
		return "nothing tells how often the job makes its calls, or how long they take (needed: a profile with " +
			"calls, see tunefit import)"
	case w.Covered == 0:
		return "not known: of none of the job's calls it was measured what it takes by NCCL's default, as is " +
			"decided, and as it runs now"
	}
	text := fmt.Sprintf("%s of communication %s by NCCL's default, %s by the policy (%s), %s by the best measured",
		profile.Duration(w.Default), jobSpan(w), profile.Duration(w.Policy), gainOf(w.WorthSum),
		profile.Duration(w.Best))
	if math.Abs(w.Now-w.Default) > 1e-6*w.Default {
		text += fmt.Sprintf("; as the job runs now %s", profile.Duration(w.Now))
	}
	return text
}

// jobSpan is what the times are of.
func jobSpan(w *fit.Worth) string {
	if w.PerStep {
		return "a step"
	}
	return "in all that was recorded"
}

// gainOf is how much less time the policy takes than NCCL's choice, as far as that can be promised.
func gainOf(p fit.WorthSum) string {
	switch {
	case p.Policy == p.Default:
		return "no gain"
	case p.Policy > p.Default:
		return share(p.Policy/p.Default-1) + " more"
	case p.Once:
		return fit.OneRunEach
	}
	return share(1-p.Policy/p.Default) + " less"
}

// mostLeft are the calls not measured that a sentence can hold.
const mostLeft = 3

// JobCoverage says how much of the job's communication the headline is about.
func JobCoverage(w *fit.Worth) (notes []string) {
	if w.Total == 0 {
		return nil
	}
	of := map[profile.Weight]string{profile.ByTime: "communication time", profile.ByBytes: "bytes"}[w.Weight]
	text := fmt.Sprintf("that is of %s of the job's %s", percent(w.Covered), of)
	if len(w.Left) > 0 {
		var names []string
		for _, e := range w.Left[:min(mostLeft, len(w.Left))] {
			of := percent(w.Of(e) / w.Total)
			if of == "0.0 %" {
				of = "less than 0.1 %"
			}
			names = append(names, fmt.Sprintf("%s on %s of %s (%s)", e.Coll, e.Comm, nccl.FormatBytes(e.Bytes), of))
		}
		if n := len(w.Left) - len(names); n > 0 {
			names = append(names, fmt.Sprintf("and %d more", n))
		}
		text += "; not measured here: " + strings.Join(names, ", ")
		if w.Covered < 1-worthwhile {
			text += " (tunefit sweep --profile measures it)"
		}
	}
	notes = append(notes, text)
	if w.Weight == profile.ByBytes && w.Covered > 0 {
		notes = append(notes,
			"the job's own times are not known: where they are missing, those measured here are taken")
	}
	if w.Uncounted > 0 {
		notes = append(notes, fmt.Sprintf("not counted: %.4g calls %s whose size or time is not known", w.Uncounted,
			jobSpan(w)))
	}
	return notes
}

// jobTone is the colour of the job's card.
func jobTone(w *fit.Worth) string {
	switch {
	case w.Covered == 0, w.Once && w.Policy < w.Default:
		return "open"
	case w.Policy < w.Default:
		return "good"
	}
	return "none"
}
