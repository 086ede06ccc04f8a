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

// Opens and initialises the library. 0, or -1 with a message. NCCL's oldest release here needs a driver that has all of
// these functions.
static int nvml_open(nvml *n, const char *path, char *message, size_t size) {
	const struct { void *slot; const char *name; } functions[] = {
		{&n->init, "nvmlInit_v2"},
		{&n->shutdown, "nvmlShutdown"},
		{&n->error_string, "nvmlErrorString"},
		{&n->count, "nvmlDeviceGetCount_v2"},
		{&n->by_index, "nvmlDeviceGetHandleByIndex_v2"},
		{&n->name, "nvmlDeviceGetName"},
		{&n->pci, "nvmlDeviceGetPciInfo_v3"},
		{&n->compute_cap, "nvmlDeviceGetCudaComputeCapability"},
		{&n->max_link_gen, "nvmlDeviceGetMaxPcieLinkGeneration"},
		{&n->link_width, "nvmlDeviceGetCurrPcieLinkWidth"},
		{&n->nvlink_cap, "nvmlDeviceGetNvLinkCapability"},
		{&n->nvlink_state, "nvmlDeviceGetNvLinkState"},
		{&n->nvlink_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2"},
		{&n->fields, "nvmlDeviceGetFieldValues"},
	};
	n->lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!n->lib) {
		snprintf(message, size, "%s", dlerror());
		return -1;
	}
	int rc = 0;
	for (size_t i = 0; i < sizeof functions / sizeof *functions && rc == 0; i++) {
		void *f = dlsym(n->lib, functions[i].name);
		memcpy(functions[i].slot, &f, sizeof f); // C11 cannot convert void* to a function pointer; POSIX can
		if (!f) {
			snprintf(message, size, "%s: too old, %s is missing", path, functions[i].name);
			rc = -1;
		}
	}
	if (rc == 0 && (rc = n->init()) != OK) {
		snprintf(message, size, "%s: nvmlInit: %s", path, n->error_string(rc));
		rc = -1;
	}
	if (rc != 0) dlclose(n->lib);
	return rc;
}

static void nvml_close(nvml *n) {
	n->shutdown();
	dlclose(n->lib);
}

// What a device tells; 0 and empty where it does not.
typedef struct {
	device handle;
	pci_info pci;
	char name[96];
	int major, minor; // of its compute capability
	unsigned int max_link_gen, link_width;
	unsigned int c2c_links, c2c_mbps;
} facts;

// Reads one field of a device or of one of its links; 0 on failure.
static int nvml_field(nvml *n, device d, unsigned int id, unsigned int scope, unsigned int *value) {
	field_value f = {.field_id = id, .scope_id = scope};
	if (n->fields(d, 1, &f) != OK || f.result != OK) return 0;
	*value = f.value.u;
	return 1;
}

static int nvml_device(nvml *n, unsigned int index, facts *d) {
	int rc = n->by_index(index, &d->handle);
	if (rc == OK) rc = n->pci(d->handle, &d->pci);
	if (rc == OK) rc = n->compute_cap(d->handle, &d->major, &d->minor);
	if (rc != OK) return rc;
	if (n->name(d->handle, d->name, sizeof d->name - 1) != OK) d->name[0] = 0;
	if (n->max_link_gen(d->handle, &d->max_link_gen) != OK) d->max_link_gen = 0;
	if (n->link_width(d->handle, &d->link_width) != OK) d->link_width = 0;
	unsigned int count = 0;
	if (d->major >= 9) nvml_field(n, d->handle, FIELD_C2C_COUNT, 0, &count);
	for (unsigned int i = 0; i < count; i++) {
		unsigned int up = 0;
		if (nvml_field(n, d->handle, FIELD_C2C_STATUS, i, &up) && up == 1 &&
			nvml_field(n, d->handle, FIELD_C2C_MAX_BW, i, &d->c2c_mbps)) d->c2c_links++;
	}
	return OK;
}

// Tells whether a link is up and can carry P2P traffic, and what is at its other end. From Hopper on only the field
// says whether it is up.
static int nvml_nvlink(nvml *n, const facts *d, unsigned int link, pci_info *remote) {
	unsigned int p2p = 0, up = 0;
	int state = 0;
	if (n->nvlink_cap(d->handle, link, CAP_P2P, &p2p) != OK || !p2p) return 0;
	if (d->major >= 9 ? !nvml_field(n, d->handle, FIELD_NVLINK_STATE, link, &up) || up != 1
		: n->nvlink_state(d->handle, link, &state) != OK || state != 1) return 0;
	return n->nvlink_remote(d->handle, link, remote) == OK;
}

static int nvml_count(nvml *n, unsigned int *count) { return n->count(count); }
static const char *nvml_error(nvml *n, int rc) { return n->error_string(rc); }
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
		var d C.facts
		if rc := C.nvml_device(&lib, C.uint(i), &d); rc != C.OK {
			return nil, fmt.Errorf("%s: device %d: %s", path, i, C.GoString(C.nvml_error(&lib, rc)))
		}
		devices[i] = NVMLDevice{
			Index:      i,
			Name:       C.GoString(&d.name[0]),
			BusID:      nvmlBusID(C.GoString(&d.pci.bus_id_legacy[0])),
			Vendor:     uint16(d.pci.pci_device_id),
			Device:     uint16(d.pci.pci_device_id >> 16),
			SubVendor:  uint16(d.pci.pci_subsystem_id),
			SubDevice:  uint16(d.pci.pci_subsystem_id >> 16),
			ComputeCap: int(d.major)*10 + int(d.minor),
			LinkGen:    int(d.max_link_gen),
			LinkWidth:  int(d.link_width),
			C2CLinks:   int(d.c2c_links),
			C2CMBps:    int(d.c2c_mbps),
		}
		for link := range nvLinkSlots(devices[i].ComputeCap) {
			var remote C.pci_info
			if C.nvml_nvlink(&lib, &d, C.uint(link), &remote) != 0 {
				devices[i].NVLinks = append(devices[i].NVLinks, nvmlBusID(C.GoString(&remote.bus_id_legacy[0])))
			}
		}
	}
	return devices, nil
}
