package bench

import "fmt"

// Why times are rejected.
const (
	rejectFailed     = "failed validation"
	rejectFailedRun  = "failed validation (the run says so, no row does)"
	rejectZeroSize   = "zero size"
	rejectCPUTime    = "CPU time, not the GPU's (-C 1)"
	rejectTruncated  = "truncated"
	rejectMalformed  = "malformed"
	rejectNoTime     = "no time, or one that is not positive and finite"
	rejectTime       = "time is not 1 ns to 11 days"
	rejectSize       = "size is 2^50 bytes or more"
	rejectRanks      = "fewer ranks than nodes"
	rejectChannels   = "channel count is above 64"
	rejectNeverHas   = "NCCL never has %s/%s for %s: the label is wrong"
	rejectUnits      = "time and bandwidth differ by a factor of 1000 (wrong units)"
	rejectCollective = "collective not known (needed: tunefit import --coll)"
	rejectMixed      = "rows of several processes, each with a test of its own, are mixed (needed: nccl-tests built " +
		"with MPI=1 if it was to be one test, or one file for each)"
	rejectSeveral = "busbw/algbw differs between rows: they are of several communicators or operations (needed: one " +
		"file for each)"
	rejectAlone = "a process ran alone with one GPU, which sends nothing: this measures no collective (was " +
		"nccl-tests built without MPI=1?)"
	rejectNotAsked   = "NCCL asks no tuner about %s"
	rejectNotLoaded  = "the tuner that was to choose was not loaded (is its library in LD_LIBRARY_PATH?)"
	rejectNotOffered = "the tuner's row did not apply: the configuration is not available here"
	rejectGrouped    = "grouped or registered (pipeOps or regBuff is set)"
)

// What is doubtful, and what the user can do.
const (
	noteNoRow    = "a run without a single row"
	noteNoResult = "a run without a single result"
	noteCutOff   = "the run has no last lines: it was cut off, or the file was"
	noteCutJSON  = "the file ends in the middle: it was cut off, or the run was"
	noteRefused  = "; tunefit sweep --dry-run --from this log or the sweep made of it leaves %s out"
	noteBrokeOff = "; tunefit sweep --dry-run --from this log does not ask for the rest of it again; if %s cannot " +
		"run here, --skip %s leaves it out"
	noteBlocking  = "times include waiting after each operation (-z)"
	noteGraphs    = "times are those of CUDA graph launches (-G)"
	noteSideWork  = "other work ran beside the operations"
	noteSplit     = "the ranks form several communicators; counted are those of group %s"
	noteTuner     = "the tuner plugin %s was loaded: these times are not the library's default"
	noteSymmetric = "symmetric kernels ran: those rows have no algorithm"
	noteSeveral   = "NCCL's log shows several choices for %s of %d bytes: the row has no label"
	noteClash     = "%s is %v by %s, but %v by %s: the first is used"

	noteOperations = "the run is %s by its header or command, but %s by its rows or --coll: the first is used"

	needsComm      = "(needed: --comm NODESxRANKS_PER_NODE)"
	noteComm       = "%s is used: these differ: %s"
	noteSharedName = "a GPU is listed twice on a host: several hosts have one name, and their number is not known " +
		needsComm
	noteListCut = "the list of devices was cut: %d ranks by their numbers and by busbw and algbw, on an unknown " +
		"number of nodes " + needsComm
	noteManyRanks = "at least %d ranks by busbw and algbw, and nothing that agrees tells how many " + needsComm
	asksNodes     = "(NCCL's log with NCCL_DEBUG=INFO says nNodes; else give tunefit import --comm " +
		"NODESxRANKS_PER_NODE)"
	noteHosts = "%s counted as nodes, but NCCL counts otherwise %s " + asksNodes

	noteUnused    = "not used: column %s (allowed: %s)"
	noteBandwidth = "bandwidth_gbps is not used: the format does not say which bandwidth it is"

	askDirect = "RCCL's direct access is ready (ncclDdaIpcCommInit): it runs calls whatever NCCL_ALGO and a tuner " +
		"say, so what ran is not known (measure with RCCL_DDA_ENABLE=0; if this run had it, give --with " +
		"RCCL_DDA_ENABLE=0)"
	askSettings = "mentioned, and NCCL's log does not confirm it: %s. Tell tunefit import what ran: %s"
	askLog      = "import NCCL's log %s together with this file"
	askChoice   = "--default if NCCL chose, or --algo, --proto and --channels if something else did"
	askSetting  = "--with NAME=VALUE, as --with %s=1, or --with %s= if it was not set"
)

// Note is a remark about one place of a file.
type Note struct {
	File string
	Line int // from 1; 0: the whole file
	Text string
}

// String has the form file:line: text.
func (n Note) String() string {
	if n.Line == 0 {
		return fmt.Sprintf("%s: %s", n.File, n.Text)
	}
	return fmt.Sprintf("%s:%d: %s", n.File, n.Line, n.Text)
}

// mostNotes bounds what one broken file says.
const mostNotes = 20

// Rejection counts times that are not used, for one reason. A row of nccl-tests
// holds up to two times, out-of-place and in-place.
type Rejection struct {
	Reason string
	Count  int
	Line   int // of the first; 0: the file has no lines
}

// First returns the place of the first time as file:line.
func (r Rejection) First(file string) string {
	if r.Line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, r.Line)
}
