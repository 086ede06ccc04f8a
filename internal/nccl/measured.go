package nccl

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MeasuredWith reads the releases that measurements were made with, as "2.28.9" or "2.28.9, 2.30.7", and returns the
// oldest and the newest. ok is false where the text names none, or also another library, as RCCL.
func MeasuredWith(text string) (oldest, newest Version, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		v, err := ParseVersion(strings.TrimSpace(part))
		if err != nil {
			return 0, 0, false
		}
		if !ok || v < oldest {
			oldest = v
		}
		newest, ok = max(newest, v), true
	}
	return oldest, newest, ok
}

// IsRCCL reports whether the releases that measurements were made with are RCCL's, as "RCCL 2.27.7".
func IsRCCL(releases string) bool { return strings.Contains(releases, "RCCL") }

// MeasuredComment is the line of a policy file that names the releases its rows were measured with ("": not known), and
// says so if their times were made up.
func MeasuredComment(releases string, simulated bool) string {
	text := "# measured"
	if simulated {
		text = "# simulated"
	}
	switch {
	case releases == "":
		return text
	case strings.HasPrefix(releases, "RCCL"):
		return text + " with " + releases
	}
	return text + " with NCCL " + releases
}

var measuredComment = regexp.MustCompile(
	`(?m)^[ \t]*#[ \t]*(?:measured|simulated) with (?:NCCL )?((?:RCCL |[0-9., ])+?)[ \t]*\r?$`)

var simulatedComment = regexp.MustCompile(
	`(?m)^[ \t]*#[ \t]*simulated(?: with (?:NCCL )?(?:RCCL |[0-9., ])+?)?[ \t]*\r?$`)

// IsSimulated reports whether the comment of a policy file says that its rows rest on times that were made up.
func IsSimulated(policy []byte) bool { return simulatedComment.Match(policy) }

// ReadMeasured returns the releases that the comment of a policy file names, as MeasuredWith reads them; "" for none.
func ReadMeasured(policy []byte) string {
	m := measuredComment.FindSubmatch(policy)
	if m == nil {
		return ""
	}
	return string(m[1])
}

// UnderComment is the text of a policy file's comment that names the variables which rows were measured under, as
// "NCCL_MAX_NCHANNELS=24 NCCL_NVLS_ENABLE=0", and says whether they were measured in CUDA graphs; "": neither. The
// variables change NCCL's choice, and graphs the times, so the rows are for jobs that run alike.
func UnderComment(variables string, graphs bool) string {
	switch {
	case graphs && variables != "":
		return "measured in CUDA graphs, for jobs that replay graphs. " + UnderComment(variables, false)
	case graphs:
		return "measured in CUDA graphs, for jobs that replay graphs"
	case variables != "":
		return "measured under " + variables + ": for jobs with these variables only"
	}
	return ""
}

var underComment = regexp.MustCompile(
	`(?m)^[ \t]*#(?:.*\.)?[ \t]*measured under ([NR]CCL_.+): for jobs with these variables only[ \t]*\r?$`)

// ReadMeasuredUnder returns what the comments of a policy file name of such variables.
func ReadMeasuredUnder(policy []byte) (variables []string) {
	for _, m := range underComment.FindAllSubmatch(policy, -1) {
		variables = append(variables, string(m[1]))
	}
	return variables
}

// LackedVariables returns those of the variables that rows or curves were measured under of which getenv has another
// value.
func LackedVariables(under []string, getenv func(string) string) (lacked []string) {
	for _, variables := range under {
		for variable := range strings.FieldsSeq(variables) {
			name, value, _ := strings.Cut(variable, "=")
			if strings.ReplaceAll(getenv(name), " ", "_") != value && !slices.Contains(lacked, variable) {
				lacked = append(lacked, variable)
			}
		}
	}
	return lacked
}

// NotMeasuredOn is what the comment of a row says whose number of nodes was not measured, but another one.
func NotMeasuredOn(nodes, measured int) string {
	return fmt.Sprintf("not measured on %d nodes; on %d nodes ", nodes, measured)
}

var notMeasuredComment = regexp.MustCompile(`(?m)^[ \t]*#.*: not measured on [0-9]+ nodes; on ([0-9]+) nodes `)

// ReadMeasuredNodes returns on how many nodes a row was measured, by the comments before it; 0 where they do not say
// that its own nodes were not.
func ReadMeasuredNodes(comments string) int {
	m := notMeasuredComment.FindStringSubmatch(comments)
	if m == nil {
		return 0
	}
	nodes, _ := strconv.Atoi(m[1])
	return nodes
}
