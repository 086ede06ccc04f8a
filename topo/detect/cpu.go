package detect

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// cpuInfo is a processor as NCCL names it in <cpu>. Only x86 has more than an architecture.
type cpuInfo struct {
	arch   string
	vendor string
	family int
	model  int
}

// parseCPUInfo reads /proc/cpuinfo.
func parseCPUInfo(text string) (cpuInfo, error) {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		key = strings.TrimSpace(key)
		if _, seen := fields[key]; ok && !seen {
			// Zhaoxin's vendor string begins and ends with blanks, so only the separator goes.
			fields[key] = strings.TrimPrefix(value, " ")
		}
	}
	if vendor, ok := fields["vendor_id"]; ok && fields["cpu family"] != "" {
		family, errFamily := strconv.Atoi(fields["cpu family"])
		model, errModel := strconv.Atoi(fields["model"])
		if errFamily != nil || errModel != nil {
			return cpuInfo{}, fmt.Errorf("cpu family %s, model %s (needed: numbers)",
				wording.Quote(fields["cpu family"]), wording.Quote(fields["model"]))
		}
		return cpuInfo{"x86_64", vendor, ncclFamily(family), model}, nil
	}
	if _, ok := fields["CPU implementer"]; ok {
		return cpuInfo{arch: "arm64"}, nil
	}
	if strings.HasPrefix(fields["cpu"], "POWER") {
		return cpuInfo{arch: "ppc64"}, nil
	}
	return cpuInfo{}, errors.New("not an x86-64, ARM or POWER processor, the ones NCCL knows")
}

// ncclFamily turns the kernel's number of a CPU family into NCCL's. CPUID has a family of 4 bits and, when that is 15,
// an extended family: the kernel adds them, NCCL shifts the extension by 4 first.
func ncclFamily(family int) int {
	if family < 15 {
		return family
	}
	return 15 + (family-15)<<4
}
