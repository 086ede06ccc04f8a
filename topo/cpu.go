package topo

import "github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"

// CPU is one NUMA domain.
type CPU struct {
	Arch   CPUArch
	Vendor CPUVendor // -1 unless x86
	Model  CPUModel  // -1 unless Intel, Yongfeng, or AMD from nccl.NewerCPUs on
}

// These numbers are NCCL's, because NCCL prints them. 0 means that NCCL does not know the CPU, -1 that NCCL does not
// look at this property.
type (
	// CPUArch is an instruction set.
	CPUArch int
	// CPUVendor is who made it.
	CPUVendor int
	// CPUModel is a generation.
	CPUModel int
)

const (
	ArchX86   CPUArch = nccl.ArchX86
	ArchPOWER CPUArch = 2
	ArchARM   CPUArch = nccl.ArchARM

	VendorIntel   CPUVendor = 1
	VendorAMD     CPUVendor = 2
	VendorZhaoxin CPUVendor = 3

	ModelBroadwell CPUModel = 1 // Intel, and older
	ModelSkylake   CPUModel = 2
	ModelSapphire  CPUModel = 3
	ModelEmerald   CPUModel = 4
	ModelZen1      CPUModel = 1 // AMD, and Zen 2; -1 where all generations count alike
	ModelZen3      CPUModel = 2 // and Zen 4
	ModelZen5      CPUModel = 3
	ModelYongfeng  CPUModel = 1 // Zhaoxin
)

var cpuArchs = []keyword[CPUArch]{{"x86_64", ArchX86}, {"arm64", ArchARM}, {"ppc64", ArchPOWER}}

// cpuVendors are the identification strings of CPUID leaf 0.
var cpuVendors = []keyword[CPUVendor]{
	{"GenuineIntel", VendorIntel},
	{"AuthenticAMD", VendorAMD},
	{"CentaurHauls", VendorZhaoxin},
	{"  Shanghai  ", VendorZhaoxin},
}

// intelModel tells generations apart by CPUID family and model. Family 6: 0x55 Skylake-SP, 0x8f Sapphire Rapids, 0xcf
// Emerald Rapids, 0xad to 0xaf Granite Rapids.
func intelModel(family, model int, version nccl.Version) CPUModel {
	granite := model >= 0xad && model <= 0xaf && version.Has(nccl.NewerCPUs)
	switch {
	case family == 6 && model >= 0x55 && !version.Has(nccl.ServerCPUs):
		return ModelSkylake
	case family == 6 && (model >= 0xcf || granite):
		return ModelEmerald
	case family == 6 && model >= 0x8f:
		return ModelSapphire
	case family == 6 && model >= 0x55:
		return ModelSkylake
	}
	return ModelBroadwell
}

// amdModel goes by the CPUID family, as NCCL's own detection (0x8f, 0xaf, 0xbf) and others (23, 25, 26) write it.
func amdModel(family int) CPUModel {
	switch family {
	case 0xbf, 26:
		return ModelZen5
	case 0xaf, 25:
		return ModelZen3
	}
	return ModelZen1
}

func zhaoxinModel(family, model int) CPUModel {
	if family == 7 && model == 0x5b {
		return ModelYongfeng
	}
	return -1
}
