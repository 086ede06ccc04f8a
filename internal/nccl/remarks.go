package nccl

import (
	"regexp"
	"strconv"
	"strings"
)

// Remarks are what the comments of a policy file tell tunefit: where its times come from, what a job needs, which
// findings are known. Each stands in a comment line of its own, "# tunefit:KEY VALUE -- REASON", with a reason for
// people. No decision depends on them: what rows are for stands in columns.
type Remarks struct {
	Measured  string   // the releases that its times were measured with, as MeasuredWith reads them; "": not known
	Simulated bool     // its times were made up
	Under     []string // the variables that rows were measured under, as "NCCL_MAX_NCHANNELS=24 NCCL_NVLS_ENABLE=0"
	Floors    Floors   // what a job must set for the channels that rows ask for
	Nodes     int      // of the comments before a row: where it was measured, if not on its own nodes; 0: not said
	Ignored   []string // the rules of tunefit check that are silenced
	Unknown   []string // keys that are none of RemarkKeys
}

// The keys of remarks.
const (
	RemarkMeasured  = "measured"  // the releases that times were measured with
	RemarkSimulated = "simulated" // the releases that times were made up for, or nothing
	RemarkUnder     = "under"     // variables, NAME=VALUE, with blanks between them
	RemarkNeeds     = "needs"     // NCCL_MIN_NCHANNELS=N or NCCL_MIN_CTAS=N
	RemarkNodes     = "nodes"     // the number of nodes that the next row was measured on
	RemarkIgnore    = "ignore"    // rules, with blanks or commas between them
)

// RemarkKeys are all of them.
var RemarkKeys = []string{RemarkMeasured, RemarkSimulated, RemarkUnder, RemarkNeeds, RemarkNodes, RemarkIgnore}

const remarkWord = "tunefit:"

// Remark is the text of such a comment, without "# ". The value and the reason may be empty.
func Remark(key, value, reason string) string {
	text := strings.TrimRight(remarkWord+key+" "+value, " ")
	if reason != "" {
		text += " -- " + reason
	}
	return text
}

// ReadRemarks reads the comment lines of a policy file, or of a part of it.
func ReadRemarks(policy []byte) (r Remarks) {
	for line := range strings.Lines(string(policy)) {
		if comment, ok := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(line, "\ufeff")), "#"); ok {
			r.Add(comment)
		}
	}
	return r
}

// Add reads the text of one comment, which may say something for people first.
func (r *Remarks) Add(comment string) {
	_, said, ok := strings.Cut(comment, remarkWord)
	end := strings.IndexAny(said+" ", " \t")
	key, value := said[:end], said[end:]
	if !ok {
		key, value = oldRemark(comment)
	}
	value, _, _ = strings.Cut(value, " -- ")
	value = strings.TrimPrefix(strings.TrimSpace(value), "NCCL ")
	switch key {
	case "": // none
	case RemarkMeasured, RemarkSimulated:
		r.Simulated = r.Simulated || key == RemarkSimulated
		if r.Measured == "" {
			r.Measured = value
		}
	case RemarkUnder:
		r.Under = append(r.Under, value)
	case RemarkNeeds:
		for variable := range strings.FieldsSeq(value) {
			name, number, _ := strings.Cut(variable, "=")
			n, _ := strconv.ParseUint(number, 10, 8) // 0 where it is no number
			switch name {
			case "NCCL_MIN_NCHANNELS":
				r.Floors.Channels = max(r.Floors.Channels, int(n))
			case "NCCL_MIN_CTAS":
				r.Floors.CTAs = max(r.Floors.CTAs, int(n))
			}
		}
	case RemarkNodes:
		r.Nodes, _ = strconv.Atoi(value)
	case RemarkIgnore:
		r.Ignored = append(r.Ignored, strings.FieldsFunc(value, func(r rune) bool {
			return r == ',' || r == ' ' || r == '\t'
		})...)
	default:
		r.Unknown = append(r.Unknown, key)
	}
}

// oldRemarks are the comments of releases up to 0.2.0 that stand for remarks, by key. They are read for one release.
var oldRemarks = []struct {
	key  string
	form *regexp.Regexp // the value is its only group
}{
	{RemarkMeasured, regexp.MustCompile(`^measured with ((?:NCCL |RCCL |[0-9., ])+)$`)},
	{RemarkSimulated, regexp.MustCompile(`^simulated(?: with ((?:NCCL |RCCL |[0-9., ])+))?$`)},
	{RemarkUnder, regexp.MustCompile(`^(?:.*\. )?measured under ([NR]CCL_.+): for jobs with these variables only$`)},
	{RemarkNeeds, regexp.MustCompile(`^needs (NCCL_MIN_(?:NCHANNELS|CTAS)=[0-9]{1,3}) in the job`)},
	{RemarkNodes, regexp.MustCompile(`: not measured on [0-9]+ nodes; on ([0-9]+) nodes `)},
}

func oldRemark(comment string) (key, value string) {
	comment = strings.TrimSpace(comment)
	for _, old := range oldRemarks {
		if m := old.form.FindStringSubmatch(comment); m != nil {
			return old.key, m[1]
		}
	}
	return "", ""
}
