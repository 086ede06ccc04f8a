// A driver library with one Hopper GPU (NVLinks seen through the field interface, C2C) and one Pascal GPU, enough to
// test loading and the layout of the structures. FAIL builds one whose initialisation fails.
#include <string.h>

typedef struct {
	char bus_id_legacy[16];
	unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
	char bus_id[32];
} pci_info;

typedef struct {
	unsigned int id, scope;
	long long timestamp, latency;
	int type, result;
	union {
		double d;
		unsigned int u;
		unsigned long long ull;
	} value;
} field;

static int gpus[2];

int nvmlInit_v2(void) {
#ifdef FAIL
	return 9;
#else
	return 0;
#endif
}
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int rc) { return rc == 9 ? "Driver Not Loaded" : "other"; }
int nvmlDeviceGetCount_v2(unsigned int *n) { return *n = 2, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int i, void **d) { return *d = &gpus[i], 0; }
int nvmlDeviceGetName(void *d, char *name, unsigned int size) {
	strncpy(name, d == &gpus[0] ? "NVIDIA GH200 480GB" : "Tesla P100-SXM2-16GB", size);
	return 0;
}
int nvmlDeviceGetPciInfo_v3(void *d, pci_info *p) {
	memset(p, 0, sizeof *p);
	strcpy(p->bus_id_legacy, d == &gpus[0] ? "0009:0A:00.0" : "0000:3B:00.0");
	p->pci_device_id = 0x234210de;
	p->pci_subsystem_id = 0x16eb10de;
	return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *d, int *major, int *minor) {
	*major = d == &gpus[0] ? 9 : 6;
	*minor = 0;
	return 0;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void *d, unsigned int *gen) { return *gen = d == &gpus[0] ? 5 : 3, 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void *d, unsigned int *width) { return (void)d, *width = 16, 0; }
int nvmlDeviceGetNvLinkCapability(void *d, unsigned int link, int cap, unsigned int *yes) {
	(void)d;
	return *yes = link != 3, cap != 0;
}
int nvmlDeviceGetNvLinkState(void *d, unsigned int link, int *active) { return (void)d, *active = link < 2, 0; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *d, unsigned int link, pci_info *p) {
	memset(p, 0, sizeof *p);
	if (d == &gpus[0]) strcpy(p->bus_id_legacy, link == 0 ? "\001" : "0000:AF:00.0");
	else strcpy(p->bus_id_legacy, "0000:3C:00.0");
	return 0;
}
int nvmlDeviceGetFieldValues(void *d, int n, field *f) {
	for (int i = 0; i < n; i++) {
		f[i].result = d == &gpus[0] ? 0 : 3;
		switch (f[i].id) {
		case 165: f[i].value.u = f[i].scope < 5; break;
		case 170: f[i].value.u = 3; break;
		case 171: f[i].value.u = f[i].scope != 1; break;
		case 172: f[i].value.u = 44712; break;
		default: f[i].result = 2;
		}
	}
	return 0;
}
