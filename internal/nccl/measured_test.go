package nccl

import (
	"strings"
	"testing"
)

func TestReadMeasured(t *testing.T) {
	for text, want := range map[string]string{
		MeasuredComment("2.28.9", false) + "\nallreduce,0,inf,ring,ll\n": "2.28.9",
		"a,b\r\n  #measured with NCCL 2.30.7 \r\n":                       "2.30.7",
		MeasuredComment("RCCL 2.27.7", false) + "\n":                     "RCCL 2.27.7",
		MeasuredComment("2.28.9, RCCL 2.27.7", false):                    "2.28.9, RCCL 2.27.7",
		"# measured with NCCL 2.28.9, 2.30.7\n":                          "2.28.9, 2.30.7",
		"# measured with NCCL 2.28.9, 1.2.3\n":                           "2.28.9, 1.2.3",
		"# measured with NCCL 1.2.3\n":                                   "1.2.3", "# measured with care\n": "",
		"allreduce,0,inf,ring,ll,1,1,8,-1,-1,# measured with NCCL 2.28.9\n": "",
		MeasuredComment("2.28.9", true):                                     "2.28.9", MeasuredComment("", true): "", "# simulated annealing\n": "",
		"": "",
	} {
		if got := ReadMeasured([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if said, want := IsSimulated([]byte(text)), text == MeasuredComment("2.28.9", true) ||
			text == MeasuredComment("", true); said != want {
			t.Errorf("%q: simulated: %v", text, said)
		}
	}
}

// A policy's comments say which variables a job has to have, also beside what else they say of how it was measured.
func TestLackedVariables(t *testing.T) {
	const two = "NCCL_MAX_NCHANNELS=24 NCCL_NVLS_ENABLE=0"
	text := "# measured\na,b\n# " + UnderComment(two, false) + "\nrow\n# " + UnderComment("NCCL_IB_DISABLE=1", true) +
		"\r\nrow\n# " + UnderComment("", true) + "\n# " + UnderComment(two, false) + "\n"
	for set, want := range map[string]string{
		"":                      "NCCL_MAX_NCHANNELS=24 NCCL_NVLS_ENABLE=0 NCCL_IB_DISABLE=1",
		"NCCL_MAX_NCHANNELS=24": "NCCL_NVLS_ENABLE=0 NCCL_IB_DISABLE=1",
		"NCCL_MAX_NCHANNELS=8":  "NCCL_MAX_NCHANNELS=24 NCCL_NVLS_ENABLE=0 NCCL_IB_DISABLE=1",
	} {
		got := LackedVariables(ReadMeasuredUnder([]byte(text)), func(name string) string {
			value, _ := strings.CutPrefix(set, name+"=")
			if value == set {
				return ""
			}
			return value
		})
		if strings.Join(got, " ") != want {
			t.Errorf("with %q a job lacks %q, want %q", set, got, want)
		}
	}
	if UnderComment("", false) != "" {
		t.Error("a comment that says nothing")
	}
}
