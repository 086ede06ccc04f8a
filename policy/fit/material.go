package fit

// What counts, and what does not: the constants by which a sweep goes on, a configuration is chosen, and a row is
// written. Differences are in ln(us), so 0.01 is one percent.
const (
	// leastGain: a configuration has to be expected to gain so much over the default. A job does not notice less.
	leastGain = 0.003
	// mostLoss and sure: a configuration may turn out so much slower than the default, by its expected gain less this
	// many standard deviations. One percent is what is counted as a regression, see harmful. Two deviations leave out
	// one choice in 40 at the bound itself, and nearly all choices are far from it.
	mostLoss, sure = 0.01, 2
	// settingSure: a setting of a job is chosen if its gain exceeds the half of its 95 % interval by this factor, where
	// chance favours one of two.
	settingSure = 1.3
	// leastPrior is what gains of a cluster are taken to spread by at least. Where all gains that are seen may be
	// noise, none is believed, but repetitions may still prove one.
	leastPrior = 0.005
	// harmful is the ratio of times from which a choice is called slower than the default.
	harmful = 1.01
	// mostLost is how much longer than the model's choice a row may take at any one size. Without this tolerance a
	// file needs many rows.
	mostLost = 0.01

	// worthwhile: a sweep goes on while a round improves the best times by this much in the mean of all sizes. Less is
	// not worth a start of all ranks.
	worthwhile = 0.004
	// luck: six more candidates improve the best times by some of the standard deviation of single times, though none
	// is faster. A round has to improve them by more than this share of it.
	luck = 0.2
	// near: a configuration within this factor of the best time is measured again. A single time is off by more only
	// where the machine is too noisy to choose anyway.
	near = 1.1
	// hopeful: a family that takes so many times as long as the best, with the counts that were tried, may still win
	// with others. Between few and many channels most families change by more, between half and all by less.
	hopeful = 1.3
	// wins: the winner of a neighbouring size is tried where it gains this much over the default there.
	wins = 0.01
	// latencyBytes: up to this size the latency of channels may decide, so the fewest are tried in the first start.
	latencyBytes = 256 << 10
	// mostLL: beyond it LL, which sends a flag with each 4 bytes, has half the bandwidth of the others. It is tried
	// there only if it is among the fastest at the largest size below.
	mostLL = 8 << 20
)
