package nccl

import "regexp"

// MeasuredComment is the line of a policy file that names the release its rows were measured with.
func MeasuredComment(v Version) string { return "# measured with NCCL " + v.String() }

var measuredComment = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*measured with NCCL ([0-9.]+)[ \t]*\r?$`)

// ReadMeasured returns the release that the comment of a policy file names; 0 for none.
func ReadMeasured(policy []byte) Version {
	m := measuredComment.FindSubmatch(policy)
	if m == nil {
		return 0
	}
	v, err := ParseVersion(string(m[1]))
	if err != nil {
		return 0
	}
	return v
}
