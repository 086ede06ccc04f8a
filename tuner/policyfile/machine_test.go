package policyfile

import (
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
)

func TestFindMachine(t *testing.T) {
	const file = "../../configs/topo/dgx-h100.xml"
	here, from, err := FindMachine(only(detect.TunerFileVariable, file))
	if err != nil || here.Summary.GPUs != 8 || here.Fingerprint == "" ||
		from.String() != detect.TunerFileVariable+"="+file {
		t.Errorf("%+v from %s, %v", here, from, err)
	}
	if _, _, err := FindMachine(only(detect.TunerFileVariable, "absent.xml")); err == nil ||
		!strings.Contains(err.Error(), "absent.xml") {
		t.Errorf("a topology file that is not there: %v", err)
	}
}
