package nccl

import "testing"

func TestReadMeasured(t *testing.T) {
	for text, want := range map[string]string{
		MeasuredComment("2.28.9") + "\nallreduce,0,inf,ring,ll\n": "2.28.9",
		"a,b\r\n  #measured with NCCL 2.30.7 \r\n":                "2.30.7",
		MeasuredComment("RCCL 2.27.7") + "\n":                     "RCCL 2.27.7",
		MeasuredComment("2.28.9, RCCL 2.27.7"):                    "2.28.9, RCCL 2.27.7",
		"# measured with NCCL 2.28.9, 2.30.7\n":                   "2.28.9, 2.30.7",
		"# measured with NCCL 2.28.9, 1.2.3\n":                    "2.28.9, 1.2.3",
		"# measured with NCCL 1.2.3\n":                            "1.2.3", "# measured with care\n": "",
		"allreduce,0,inf,ring,ll,1,1,8,-1,-1,# measured with NCCL 2.28.9\n": "",
		"": "",
	} {
		if got := ReadMeasured([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
