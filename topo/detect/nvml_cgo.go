//go:build cgo && linux

package detect

/*
#cgo CFLAGS: -std=c11 -Wall -Wextra -Werror
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The few declarations of NVML's stable ABI that are used here, under names of our own.

typedef struct device_opaque *device;

typedef struct {
	char bus_id_legacy[16]; // 0000:3B:00.0
	unsigned int domain, bus, dev;
	unsigned int pci_device_id; // device << 16 | vendor
	unsigned int pci_subsystem_id;
	char bus_id[32];
	char spare[64]; // later versions may write more
} pci_info;

typedef struct {
	unsigned int field_id, scope_id;
	long long timestamp, latency_us;
	int value_type, result;
	union { double d; unsigned int u; unsigned long ul; unsigned long long ull; } value;
} field_value;

enum {
	OK = 0,
	CAP_P2P = 0,
	FIELD_NVLINK_STATE = 165,
	FIELD_C2C_COUNT = 170,
	FIELD_C2C_STATUS = 171,
	FIELD_C2C_MAX_BW = 172,
};

typedef struct {
	void *lib;
	int (*init)(void);
	int (*shutdown)(void);
	const char *(*error_string)(int);
	int (*count)(unsigned int *);
	int (*by_index)(unsigned int, device *);
	int (*name)(device, char *, unsigned int);
	int (*pci)(device, pci_info *);
	int (*compute_cap)(device, int *, int *);
	int (*max_link_gen)(device, unsigned int *);
	int (*link_width)(device, unsigned int *);
	int (*nvlink_cap)(device, unsigned int, int, unsigned int *);
	int (*nvlink_state)(device, unsigned int, int *);
	int (*nvlink_remote)(device, unsigned int, pci_info *);
	int (*fields)(device, int, field_value *);
} nvml;

// A missing function leaves its pointer NULL. C11 has no conversion from void* to a function pointer; POSIX does.
static void nvml_symbol(nvml *n, void *slot, const char *name) {
	void *f = dlsym(n->lib, name);
	memcpy(slot, &f, sizeof f);
}

static const char *nvml_error(nvml *n, int rc) {
	const char *s = n->error_string ? n->error_string(rc) : NULL;
	return s ? s : "unknown error";
}

// Opens and initialises the library. 0, or -1 with a message.
static int nvml_open(nvml *n, const char *path, char *message, size_t size) {
	memset(n, 0, sizeof *n);
	n->lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!n->lib) {
		snprintf(message, size, "%s", dlerror());
		return -1;
	}
	nvml_symbol(n, &n->init, "nvmlInit_v2");
	nvml_symbol(n, &n->shutdown, "nvmlShutdown");
	nvml_symbol(n, &n->error_string, "nvmlErrorString");
	nvml_symbol(n, &n->count, "nvmlDeviceGetCount_v2");
	nvml_symbol(n, &n->by_index, "nvmlDeviceGetHandleByIndex_v2");
	nvml_symbol(n, &n->name, "nvmlDeviceGetName");
	nvml_symbol(n, &n->pci, "nvmlDeviceGetPciInfo_v3");
	nvml_symbol(n, &n->compute_cap, "nvmlDeviceGetCudaComputeCapability");
	nvml_symbol(n, &n->max_link_gen, "nvmlDeviceGetMaxPcieLinkGeneration");
	nvml_symbol(n, &n->link_width, "nvmlDeviceGetCurrPcieLinkWidth");
	nvml_symbol(n, &n->nvlink_cap, "nvmlDeviceGetNvLinkCapability");
	nvml_symbol(n, &n->nvlink_state, "nvmlDeviceGetNvLinkState");
	nvml_symbol(n, &n->nvlink_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
	nvml_symbol(n, &n->fields, "nvmlDeviceGetFieldValues");
	if (!n->init || !n->shutdown || !n->count || !n->by_index || !n->pci || !n->compute_cap) {
		snprintf(message, size, "%s: too old, functions are missing", path);
		dlclose(n->lib);
		return -1;
	}
	int rc = n->init();
	if (rc != OK) {
		snprintf(message, size, "%s: nvmlInit: %s", path, nvml_error(n, rc));
		dlclose(n->lib);
		return -1;
	}
	return 0;
}

static void nvml_close(nvml *n) {
	n->shutdown();
	dlclose(n->lib);
}

static int nvml_count(nvml *n, unsigned int *count) { return n->count(count); }
static int nvml_by_index(nvml *n, unsigned int i, device *d) { return n->by_index(i, d); }
static int nvml_pci(nvml *n, device d, pci_info *p) { return n->pci(d, p); }
static int nvml_compute_cap(nvml *n, device d, int *major, int *minor) { return n->compute_cap(d, major, minor); }

static void nvml_name(nvml *n, device d, char *name, unsigned int size) {
	name[0] = 0;
	if (!n->name || n->name(d, name, size) != OK) name[0] = 0;
	name[size - 1] = 0;
}

static unsigned int nvml_max_link_gen(nvml *n, device d) {
	unsigned int gen = 0;
	return n->max_link_gen && n->max_link_gen(d, &gen) == OK ? gen : 0;
}

static unsigned int nvml_link_width(nvml *n, device d) {
	unsigned int width = 0;
	return n->link_width && n->link_width(d, &width) == OK ? width : 0;
}

// Reads one field of a device or of one of its links; 0 on failure.
static int nvml_field(nvml *n, device d, unsigned int id, unsigned int scope, unsigned int *value) {
	field_value f = {.field_id = id, .scope_id = scope};
	if (!n->fields || n->fields(d, 1, &f) != OK || f.result != OK) return 0;
	*value = f.value.u;
	return 1;
}

// Tells whether a link can carry P2P traffic and is up. From Hopper on only the field says whether it is up.
static int nvml_nvlink_up(nvml *n, device d, unsigned int link, int compute_cap) {
	unsigned int p2p = 0, up = 0;
	int state = 0;
	if (!n->nvlink_cap || n->nvlink_cap(d, link, CAP_P2P, &p2p) != OK || !p2p) return 0;
	if (compute_cap >= 90) return nvml_field(n, d, FIELD_NVLINK_STATE, link, &up) && up == 1;
	return n->nvlink_state && n->nvlink_state(d, link, &state) == OK && state == 1;
}

static int nvml_nvlink_remote(nvml *n, device d, unsigned int link, pci_info *p) {
	return n->nvlink_remote ? n->nvlink_remote(d, link, p) : -1;
}

static unsigned int nvml_c2c(nvml *n, device d, unsigned int *mbps) {
	unsigned int count = 0, active = 0;
	if (!nvml_field(n, d, FIELD_C2C_COUNT, 0, &count)) return 0;
	for (unsigned int i = 0; i < count; i++) {
		unsigned int up = 0, bw = 0;
		if (nvml_field(n, d, FIELD_C2C_STATUS, i, &up) && up == 1 && nvml_field(n, d, FIELD_C2C_MAX_BW, i, &bw)) {
			*mbps = bw;
			active++;
		}
	}
	return active;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// NVMLLibrary asks the driver through its library, loaded for the length of one call.
type NVMLLibrary struct {
	Path string // "" is libnvidia-ml.so.1
}

// Devices loads the library, lists the GPUs and lets go of the library.
func (l NVMLLibrary) Devices() ([]NVMLDevice, error) {
	path := l.Path
	if path == "" {
		path = "libnvidia-ml.so.1"
	}
	cPath := C.CString(path)
	defer C.free(unsafe.Pointer(cPath))

	var lib C.nvml
	var message [512]C.char
	if C.nvml_open(&lib, cPath, &message[0], C.size_t(len(message))) != 0 {
		return nil, errors.New(C.GoString(&message[0]))
	}
	defer C.nvml_close(&lib)

	var count C.uint
	if rc := C.nvml_count(&lib, &count); rc != C.OK {
		return nil, fmt.Errorf("%s: number of devices: %s", path, C.GoString(C.nvml_error(&lib, rc)))
	}
	devices := make([]NVMLDevice, count)
	for i := range devices {
		rc := nvmlDevice(&lib, i, &devices[i])
		if rc != C.OK {
			return nil, fmt.Errorf("%s: device %d: %s", path, i, C.GoString(C.nvml_error(&lib, rc)))
		}
	}
	return devices, nil
}

func nvmlDevice(lib *C.nvml, index int, out *NVMLDevice) C.int {
	var d C.device
	if rc := C.nvml_by_index(lib, C.uint(index), &d); rc != C.OK {
		return rc
	}
	var pci C.pci_info
	if rc := C.nvml_pci(lib, d, &pci); rc != C.OK {
		return rc
	}
	var major, minor C.int
	if rc := C.nvml_compute_cap(lib, d, &major, &minor); rc != C.OK {
		return rc
	}
	var name [96]C.char
	C.nvml_name(lib, d, &name[0], C.uint(len(name)))
	*out = NVMLDevice{
		Index:      index,
		Name:       C.GoString(&name[0]),
		BusID:      nvmlBusID(C.GoString(&pci.bus_id_legacy[0])),
		Vendor:     uint16(pci.pci_device_id),
		Device:     uint16(pci.pci_device_id >> 16),
		SubVendor:  uint16(pci.pci_subsystem_id),
		SubDevice:  uint16(pci.pci_subsystem_id >> 16),
		ComputeCap: int(major)*10 + int(minor),
		LinkGen:    int(C.nvml_max_link_gen(lib, d)),
		LinkWidth:  int(C.nvml_link_width(lib, d)),
	}
	for link := range nvLinkSlots(out.ComputeCap) {
		if C.nvml_nvlink_up(lib, d, C.uint(link), C.int(out.ComputeCap)) == 0 {
			continue
		}
		var remote C.pci_info
		if C.nvml_nvlink_remote(lib, d, C.uint(link), &remote) != C.OK {
			continue
		}
		out.NVLinks = append(out.NVLinks, nvmlBusID(C.GoString(&remote.bus_id_legacy[0])))
	}
	if out.ComputeCap >= 90 {
		var mbps C.uint
		out.C2CLinks = int(C.nvml_c2c(lib, d, &mbps))
		out.C2CMBps = int(mbps)
	}
	return C.OK
}
