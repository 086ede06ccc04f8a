package topo

import (
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Bandwidths in GB/s, as in NCCL's graph/topo.h and topo.cc. They are what one direction of a link sustains for
// NCCL's traffic, which is less than the nominal rate.
const (
	bwLocal      = 5000 // within a device
	bwMLOPart    = 2618 // between the two halves of a split GPU
	bwPOWER9     = 32   // X-bus
	bwARM        = 6
	bwAMD        = 16 // Infinity Fabric, up to Zen 2
	bwZen3       = 24
	bwZen5       = 32
	bwBroadwell  = 6  // QPI
	bwSkylake    = 10 // UPI, also Cascade Lake and Ice Lake
	bwSapphire   = 22 // UPI, Sapphire Rapids
	bwEmerald    = 40 // UPI, Emerald Rapids and later
	bwZhaoxin    = 6  // ZPI
	bwYongfeng   = 9
	defaultMbps  = 10000 // of a network port whose speed is missing, 0 or negative
	defaultWidth = 16    // PCI lanes, where the width is 0 or missing
)

// nvLinkBW is the bandwidth of one NVLink of a GPU with compute capability sm (times 10).
func nvLinkBW(sm int, version nccl.Version) float32 {
	switch {
	case sm >= 100 && version.Has(nccl.WiderBlackwellLinks):
		return 40.1
	case sm >= 100 && version.Has(nccl.BlackwellLinks):
		return 40
	case sm >= 90:
		return 20.6
	case sm == 86:
		return 12
	case sm >= 70:
		return 20
	case sm >= 60:
		return 18
	}
	return 20
}

// pciSpeeds holds megabits per second and lane, divided by 100. The first entry that the text starts with counts; the
// kernel writes "16.0 GT/s PCIe", older ones "16 GT/s".
var pciSpeeds = []keyword[int]{
	{"2.5 GT/s", 15}, {"5 GT/s", 30}, {"8 GT/s", 60}, {"16 GT/s", 120}, {"32 GT/s", 240},
	{"5.0 GT/s PCIe", 30}, {"8.0 GT/s PCIe", 60}, {"16.0 GT/s PCIe", 120},
	{"32.0 GT/s PCIe", 240}, {"64.0 GT/s PCIe", 480},
}

const defaultPCISpeed = 60 // 8 GT/s

func pciBW(speed string, width int) float32 {
	if width == 0 {
		width = defaultWidth
	}
	return float32(float64(int32(width*lookup(pciSpeeds, speed, defaultPCISpeed))) / 80)
}

func netBW(mbps int) Float32 {
	if mbps <= 0 {
		mbps = defaultMbps
	}
	return Float32(float64(mbps) / 8000)
}

// interCPUBW is the bandwidth from one CPU to the other CPUs of its host.
func interCPUBW(c *CPU) float32 {
	switch c.Arch {
	case ArchPOWER:
		return bwPOWER9
	case ArchARM:
		return bwARM
	case ArchX86:
		switch c.Vendor {
		case VendorIntel:
			return [...]float32{ModelBroadwell: bwBroadwell, ModelSkylake: bwSkylake, ModelSapphire: bwSapphire,
				ModelEmerald: bwEmerald}[c.Model]
		case VendorAMD:
			switch c.Model {
			case ModelZen3:
				return bwZen3
			case ModelZen5:
				return bwZen5
			}
			return bwAMD
		case VendorZhaoxin:
			if c.Model == ModelYongfeng {
				return bwYongfeng
			}
			return bwZhaoxin
		}
	}
	return bwLocal
}

// keyword is an entry of a table that is searched by prefix.
type keyword[T any] struct {
	prefix string
	value  T
}

func lookup[T any](table []keyword[T], text string, def T) T {
	for _, k := range table {
		if strings.HasPrefix(text, k.prefix) {
			return k.value
		}
	}
	return def
}
