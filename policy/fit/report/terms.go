package report

// Term is a word of the tables, and what it means.
type Term struct{ Name, Means string }

// Terms are those of the page and of tunefit fit --verbose.
var Terms = []Term{
	{"default", "what NCCL does by itself, without a tuner and without NCCL_ALGO and NCCL_PROTO"},
	{"configuration", "an algorithm, a protocol and a number of channels"},
	{"curve", "what a configuration takes: its measured times, and a monotone cubic of their logarithms in between, " +
		"which never leaves the range of the two times around it. It ends at the sizes measured. Decisions follow " +
		"these curves"},
	{"policy", "the rows that fit writes (--csv): a configuration where it is sure to gain, the default elsewhere"},
	{"noise", "by how much repetitions of one measurement differ, as a standard deviation (sigma); \"assumed\" where " +
		"too few were measured to tell"},
	{"gain", "share of the default's time that is saved, the mean over the sizes measured. On the page the policy " +
		"saves it, in the tables of --verbose the fastest configuration measured does. Between these sizes it may be " +
		"less or more. \"As measured\" still holds the luck of the winner: of many alike, the one that noise " +
		"favoured looks fastest"},
	{"left out", "data kept from the fit to try its decisions on: every other size, or the largest node count"},
	{"regret", "time of a decision / best time measured; 1.02 is 2 % slower than the best. The interval beside the " +
		"mean holds it in 90 % of resamplings. One decision in 20 exceeds p95"},
	{"cautious", "as the policy decides: it takes the default where a gain is not sure"},
	{"plain", "always taking the fastest prediction, sure or not"},
	{"harm", "decisions more than 1 % slower than the default, of those that were not the default"},
	{"90 % interval",
		"where the time should be in nine cases of ten. On seven measured grids, the intervals of points left out of " +
			"the fit held 83 to 98 % of their times, by grid"},
	{"in 90 %", "how many of the times left out are inside their 90 % intervals"},
	{"busbw",
		"bus bandwidth in GB/s as nccl-tests computes it: size / time, times 2(n-1)/n for allreduce of n ranks, " +
			"(n-1)/n for allgather and reducescatter, 1 for broadcast and reduce"},
}
