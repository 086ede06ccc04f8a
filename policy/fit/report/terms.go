package report

// Term is a word of the tables, and what it means.
type Term struct{ Name, Means string }

// Terms are those of the page and of tunefit fit --verbose.
var Terms = []Term{
	{"default", "what NCCL does by itself, without a tuner and without NCCL_ALGO and NCCL_PROTO"},
	{"configuration", "an algorithm, a protocol and a number of channels"},
	{"policy", "the rows that fit writes (--csv): a configuration where it is sure to gain, the default elsewhere"},
	{"noise", "by how much repetitions of one measurement differ, as a standard deviation (sigma); \"assumed\" where too few were measured to tell"},
	{"fit off by", "half of the fitted times are nearer than this to those measured"},
	{"gain", "share of the default's time that is saved, the mean over sizes: on the page by the policy, in the tables of --verbose by the fastest measured. \"As measured\" still holds the luck of the winner: of many alike, the one that noise favoured looks fastest"},
	{"left out", "data kept from the fit to try its decisions on: every other size, one channel count, or the largest node count"},
	{"regret", "time of a decision / best time measured; 1.02 is 2 % slower than the best. With its mean stands the interval that holds the mean in 90 % of resamplings; p95 is exceeded by one decision in 20"},
	{"cautious", "as the policy decides: it takes the default where a gain is not sure"},
	{"plain", "always taking the fastest prediction, sure or not"},
	{"log-log", "straight lines between the logarithms of size and time, per configuration"},
	{"nearest", "the best configuration of the measured size that is nearest, by its logarithm"},
	{"arg-min", "the best configuration of each size measured, as far as half way to the next, as NCCL's optimize_config.py has it"},
	{"harm", "decisions more than 1 % slower than the default, of those that were not the default"},
	{"in 90 %", "how many of the times left out are inside the interval that should hold 90 % of them"},
	{"busbw", "bus bandwidth in GB/s as nccl-tests reckons it: size / time, times 2(n-1)/n for allreduce of n ranks, (n-1)/n for allgather and reducescatter, 1 for broadcast and reduce"},
}
