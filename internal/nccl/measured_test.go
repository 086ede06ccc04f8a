package nccl

import "testing"

func TestReadMeasured(t *testing.T) {
	for text, want := range map[string]Version{
		MeasuredComment("2.28.9") + "\nallreduce,0,inf,ring,ll\n":           22809,
		"a,b\r\n  #measured with NCCL 2.30.7 \r\n":                          23007,
		"# measured with NCCL 2.28.9, 2.30.7\n":                             23007,
		"# measured with NCCL 2.28.9, 1.2.3\n":                              0,
		"# measured with NCCL 1.2.3\n":                                      0,
		"allreduce,0,inf,ring,ll,1,1,8,-1,-1,# measured with NCCL 2.28.9\n": 0,
		"": 0,
	} {
		if got := ReadMeasured([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
