//go:build cgo && linux

package detect

import (
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// buildNVML compiles the fake driver library.
func buildNVML(t *testing.T, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "libnvml_fake.so")
	args := append([]string{"-shared", "-fPIC", "-o", out, "testdata/nvml_fake.c"}, flags...)
	cmd := exec.Command("cc", args...)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Skipf("no C compiler for the fake driver library: %v\n%s", err, text)
	}
	return out
}

func TestNVMLLibraryReadsTheDriver(t *testing.T) {
	got, err := NVMLLibrary{Path: buildNVML(t)}.Devices()
	if err != nil {
		t.Fatal(err)
	}
	want := []NVMLDevice{
		{
			Index: 0, Name: "NVIDIA GH200 480GB", BusID: "0009:0a:00.0", Vendor: 0x10de, Device: 0x2342,
			SubVendor: 0x10de,
			SubDevice: 0x16eb, ComputeCap: 90, LinkGen: 5, LinkWidth: 16,
			NVLinks:  []string{"", "0000:af:00.0", "0000:af:00.0", "0000:af:00.0"}, // link 3 cannot carry P2P
			C2CLinks: 2, C2CMBps: 44712,
		},
		{
			Index: 1, Name: "Tesla P100-SXM2-16GB", BusID: "0000:3b:00.0", Vendor: 0x10de, Device: 0x2342,
			SubVendor: 0x10de,
			SubDevice: 0x16eb, ComputeCap: 60, LinkGen: 3, LinkWidth: 16,
			NVLinks: []string{"0000:3c:00.0", "0000:3c:00.0"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestNVMLLibrarySaysWhatFailed(t *testing.T) {
	for name, tt := range map[string]struct{ path, want string }{
		"no library":    {"/nonexistent/libnvidia-ml.so.1", "cannot open shared object file"},
		"no driver":     {buildNVML(t, "-DFAIL"), "nvmlInit: Driver Not Loaded"},
		"other library": {"libdl.so.2", "too old, nvmlInit_v2 is missing"},
	} {
		_, err := NVMLLibrary{Path: tt.path}.Devices()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
	}
}
