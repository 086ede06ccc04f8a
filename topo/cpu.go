package topo

// CPU is one NUMA domain.
type CPU struct {
	Arch   CPUArch
	Vendor CPUVendor // -1 unless x86
	Model  CPUModel  // -1 unless Intel or Yongfeng
}

// CPUArch, CPUVendor and CPUModel have NCCL's values, since NCCL prints them. 0 is one that NCCL does not know, -1 one that
// it does not look at.
type (
	CPUArch   int
	CPUVendor int
	CPUModel  int
)

const (
	ArchX86   CPUArch = 1
	ArchPOWER CPUArch = 2
	ArchARM   CPUArch = 3

	VendorIntel   CPUVendor = 1
	VendorAMD     CPUVendor = 2
	VendorZhaoxin CPUVendor = 3

	ModelBroadwell CPUModel = 1 // Intel, and older
	ModelSkylake   CPUModel = 2
	ModelSapphire  CPUModel = 3
	ModelEmerald   CPUModel = 4
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
// Emerald Rapids.
func intelModel(family, model int) CPUModel {
	switch {
	case family == 6 && model >= 0xcf:
		return ModelEmerald
	case family == 6 && model >= 0x8f:
		return ModelSapphire
	case family == 6 && model >= 0x55:
		return ModelSkylake
	}
	return ModelBroadwell
}

func zhaoxinModel(family, model int) CPUModel {
	if family == 7 && model == 0x5b {
		return ModelYongfeng
	}
	return -1
}
