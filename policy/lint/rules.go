package lint

// Rule is one thing to look for.
type Rule struct {
	Name     string
	Severity Severity
	Summary  string // a few words
	Explain  string // what it means and what to do
	Fixable  bool   // Fix can put it right, at least sometimes
}

// Names of the rules, as files and command lines have them.
const (
	Invalid             = "invalid"
	noRows              = "no-rows"
	matchesNothing      = "matches-nothing"
	duplicate           = "duplicate"
	shadowed            = "shadowed"
	overlap             = "overlap"
	gap                 = "gap"
	neverOffered        = "never-offered"
	avoidsNothing       = "avoids-nothing"
	notOnThisMachine    = "not-on-this-machine"
	neverAsked          = "never-asked"
	regBuff             = "reg-buff"
	bound4GiB           = "4gib-bound"
	channelsAbove64     = "channels-above-64"
	channelsAboveComm   = "channels-above-machine"
	channelsLeftAlone   = "channels-left-alone"
	channelsUnchecked   = "channels-unchecked"
	chunkBelowGrain     = "chunk-below-grain"
	chunkNotMultiple    = "chunk-not-multiple"
	badIgnore           = "bad-ignore"
	modelInvalid        = "model-invalid"
	modelStale          = "model-stale"
	modelSimulated      = "model-simulated"
	modelRegret         = "model-regret"
	modelNoDefault      = "model-no-default"
	modelTwins          = "model-twins"
	modelMachine        = "model-machine"
	modelMasked         = "model-masked"
	modelDisagrees      = "model-disagrees"
	modelChannelsUnseen = "model-channels-unseen"
)

// Rules lists all rules.
var Rules = []Rule{
	{Invalid, Error, "the tuner refuses the file", `
The library rejects a file with such an error whole: NCCL then runs as without a
tuner, or does not start at all with NCCL_TUNER_STRICT=1. Correct it first; nothing
else is checked until then.`, false},
	{noRows, Warning, "a policy without rows", `
The file is read and decides nothing. With NCCL_TUNER_STRICT=1 NCCL does not start.
Is it the right file?`, false},
	{matchesNothing, Warning, "no call can match the row", `
The limits of the row exclude each other for every number of ranks that it allows, or
it is for a communicator of one rank, about which NCCL asks nothing. Correct the limits
or delete the row.`, false},
	{duplicate, Warning, "a row that says what an earlier one says", `
Both rows match the same calls and ask for the same. The later one never decides;
delete it (--fix does).`, true},
	{shadowed, Warning, "an earlier row always decides first", `
Whatever this row matches, an earlier row matches too, and it asks for each cell of the
cost table that this row asks for, so that it decides wherever this row could. Rows are
tried from top to bottom: move the row up, narrow the earlier row, or delete it. Rows that
only several earlier ones hide together are not looked for.

A row behind another one that asks for a different single cell is no such case: it
decides where that cell is not available. (NCCL 2.21, ABI v2, does not tell costs: rows
that ask for the cheapest of several cells never match there, so that rows behind
them may be reached.)`, false},
	{overlap, Warning, "rows overlap in part and disagree", `
Both rows match the sizes named, for the same or a wider set of communicators, and ask
for something different. The earlier one decides. An exception inside a wider row, put
before it, is not reported; two rows that overlap at their ends mostly are a mistake
of the bounds: ranges are inclusive, so the next row begins one byte later.`, false},
	{gap, Warning, "sizes between two rows that no row matches", `
NCCL decides for these sizes. A gap of less than a doubling mostly comes from rows made
of measured sizes: let each row run up to where the next one begins (max_bytes is
inclusive). Wider gaps are mentioned as a note.`, false},
	{neverOffered, Warning, "NCCL never offers what the row asks for", `
NCCL has no such combination, whatever the machine (2.21 to 2.30): broadcast and reduce
run on ring only; allgather and reducescatter have no tree, nvls_tree or collnet_chain;
allreduce has no pat; nvls, nvls_tree, collnet_direct, collnet_chain and pat run with
simple only; pat takes one rank per node; nvls_tree takes several nodes; collnet takes
at most 8 ranks per node; nvls at most 32 for allgather and reducescatter. The row
never decides anything.`, false},
	{avoidsNothing, Note, "what the row avoids is never offered", `
NCCL never offers what the row excludes, so it is the same as leaving the choice to
NCCL and looking no further. Write default if that is meant.`, false},
	{notOnThisMachine, Warning, "this machine does not offer what the row asks for", `
With the topology or tuning given, NCCL has none of the cells that the row asks for on
the communicators it is for, so that it never decides there.`, false},
	{neverAsked, Note, "an operation that no tuner is asked about", `
NCCL asks tuners about allreduce, allgather, reducescatter, broadcast and reduce only.
Rows for others, as in files made for RCCL, have no effect.`, false},
	{regBuff, Warning, "ranks may disagree about reg_buff", `
Each rank finds out by itself whether buffers are registered. Ranks that differ decide
differently, and the job hangs or computes nonsense. Leave the column empty unless you
know that all ranks register alike. NCCL 2.21 to 2.23 never match such rows.`, false},
	{bound4GiB, Warning, "an upper bound that probably was meant as inf", `
max_bytes is where 31 or 32 bits end, and no row begins above it: larger collectives go
to wider rows, or to NCCL. Write inf, or silence the rule if the bound is meant. --fix
writes inf unless that would take sizes from a later row.`, true},
	{channelsAbove64, Warning, "more than 64 channels", `
NCCL has at most 64 channels; up to 127 is read as 64. --fix writes 64.`, true},
	{channelsAboveComm, Warning, "more channels than the communicator has", `
NCCL lowers the number to the channels that the communicator has on this machine. The
measured effect of the row, if any, is that of the lower number. From NCCL 2.31 on a
row's number counts only where it is lower than what NCCL takes for the size by itself.`, false},
	{channelsLeftAlone, Warning, "channels where they cannot be set", `
For CollNet, and for NVLS over several nodes, NCCL does not check the number of channels
against what the communicator has, so that the library never sets it there. --fix writes
-1, which means the same.`, true},
	{channelsUnchecked, Note, "channels of allgather that some releases leave to NCCL", `
NCCL 2.29.2 to 2.30.7 schedule a group of broadcasts with different roots, as PyTorch's
uneven all_gather makes, by the channel count that a tuner gives for an allgather, and do
not check it: more than the communicator has ends in an internal error or a crash of all
ranks. There, and where the release is not certain, the library leaves the count alone and
keeps to the rest of the row. Other releases check it.`, false},
	{chunkBelowGrain, Warning, "a chunk smaller than the protocol's grain", `
The protocol moves at least one grain: 16 bytes for ll, 1920 for ll128, 512 for simple.
The library raises smaller chunks to it. --fix writes the grain.`, true},
	{chunkNotMultiple, Note, "a chunk that is no multiple of the protocol's grain", `
NCCL rounds the chunk down to a multiple of 16 bytes for ll, 1920 for ll128, 512 for
simple. --fix writes that.`, true},
	{badIgnore, Warning, "tunefit:ignore that is not understood or not needed", `
"# tunefit:ignore RULE" silences a rule for the next row, and the same words in the
comment column for that row. Here the rule does not exist, or found nothing.`, false},

	{modelInvalid, Error, "the model cannot be used", `
The file is no model, or damaged. Fit it anew with tunefit fit.`, false},
	{modelStale, Error, "the model has an older format", `
This version reads another version of the format. Fit the model anew from its sweeps.`, false},
	{modelSimulated, Warning, "the model was fitted to simulated data", `
Times of a simulator say nothing about a real machine. Fit the model to sweeps of
nccl-tests before jobs run on it.`, false},
	{modelRegret, Warning, "decisions were poor on data left out", `
With part of the measurements left out, decisions took that much longer than the best
time measured. Measure more sizes and channel counts of this group, or the noise of the
machine is too high to decide by.`, false},
	{modelNoDefault, Note, "what NCCL does by itself was not measured", `
Without a measurement of the default a model speaks only where it beats the best that
NCCL's own choice can be. Run nccl-tests once without NCCL_ALGO, NCCL_PROTO and channel
limits.`, false},
	{modelTwins, Note, "two labels with the same times", `
Two algorithms or protocols took the same time at these sizes: the library probably ran
something else than asked. The model does not choose either there.`, false},
	{modelMachine, Warning, "the model was measured on another machine", `
The topology's fingerprint differs from that of the machine that was measured.`, false},
	{modelMasked, Note, "rows leave the model nothing to decide", `
A row beats the model. Unconditional rows match every size of this group, so that
the model never decides there unless what they ask for is not available.`, false},
	{modelDisagrees, Warning, "the model expects the row's choice to be slow", `
The model was fitted to measurements of what the row asks for, and of something faster
by more than the uncertainty of both. The row may be outdated, or the model.`, false},
	{modelChannelsUnseen, Note, "the row is for a group of the model but was not measured", `
The model's group holds no measurement of the algorithm, protocol and channels that
the row asks for, so that there is no telling what it costs.`, false},
}

// RuleNamed returns the rule of that name.
func RuleNamed(name string) (Rule, bool) {
	for _, r := range Rules {
		if r.Name == name {
			return r, true
		}
	}
	return Rule{}, false
}

// RuleNames lists the names of all rules.
func RuleNames() []string {
	names := make([]string, len(Rules))
	for i, r := range Rules {
		names[i] = r.Name
	}
	return names
}
