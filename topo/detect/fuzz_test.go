package detect

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// What the kernel tells in /proc.
func FuzzProc(f *testing.F) {
	f.Add("processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n", "Iface\tDestination\neth0\t0\n",
		"00000000000000000000000000000001 01 80 10 80       lo\n", "6.8.0-1021-aws")
	f.Add("vendor_id: x\ncpu family: 9223372036854775807\nmodel:", "", "\n", "6.")
	f.Add("CPU implementer\t: 0x41\ncpu: POWER9", "x", " ", "99999999999999999999.99999999999999999999")
	root := f.TempDir()
	f.Fuzz(func(t *testing.T, cpu, v4, v6, release string) {
		for name, text := range map[string]string{"cpuinfo": cpu, "net/route": v4, "net/if_inet6": v6,
			"sys/kernel/osrelease": release} {
			name = filepath.Join(root, "proc", name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		fs := newSysfs(root)
		c, err := parseCPUInfo(fs.read("/proc/cpuinfo"))
		if (err == nil) == (c.arch == "") {
			t.Errorf("%q: %+v, %v", cpu, c, err)
		}
		if names := addressedInterfaces(fs); names[""] {
			t.Errorf("an interface without a name in %q, %q", v4, v6)
		}
		offersGDR(fs)
		detectNICs(fs)
	})
}

func BenchmarkWorstProc(b *testing.B) {
	root := b.TempDir()
	hostile.Benchmark(b, func(text []byte) error {
		for _, name := range []string{"cpuinfo", "net/route", "net/if_inet6", "sys/kernel/osrelease"} {
			name = filepath.Join(root, "proc", name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(name, text, 0o644); err != nil {
				b.Fatal(err)
			}
		}
		fs := newSysfs(root)
		_, err := parseCPUInfo(fs.read("/proc/cpuinfo"))
		addressedInterfaces(fs)
		offersGDR(fs)
		return err
	}, hostile.Text{Head: "vendor_id: x\ncpu family:", Unit: "1"}, hostile.Text{Unit: "1 1 1 1 1 lo%d\n"},
		hostile.Text{Unit: "eth%d 1 1\n"})
}
