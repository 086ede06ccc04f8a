package nccl

import "testing"

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
