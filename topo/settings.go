package topo

import (
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cnum"
)

// Settings are the release of NCCL whose rules hold, and the NCCL_* variables that change the graph, its paths and what
// these are used for. The zero value is the default of NCCL's reference release. All ranks of a communicator must have
// the same.
type Settings struct {
	NCCL            nccl.Version
	WholeMLOPart    bool    // NCCL_TOPO_SPLIT_MLOPART=0: a GPU with memory partitions stays one device
	P2PLevel        Level   // NCCL_P2P_LEVEL, NCCL_P2P_DISABLE: farthest path for GPU peer-to-peer
	NVBDisable      bool    // NCCL_NVB_DISABLE: no NVLink path through another GPU
	SHMDisable      bool    // NCCL_SHM_DISABLE
	NetDisableIntra bool    // NCCL_NET_DISABLE_INTRA: no network between GPUs of one system
	GDRLevel        Level   // NCCL_NET_GDR_LEVEL: farthest path for GPUDirect RDMA
	GDRRead         Toggle  // NCCL_NET_GDR_READ: GPUDirect RDMA for sending
	GDRC2CDisable   bool    // NCCL_NET_GDR_C2C=0: not from a GPU on C2C to a NIC of its CPU
	GDRMLOPart      bool    // NCCL_NET_GDR_MLOPART: GPUDirect RDMA for GPUs with memory partitions
	PXNDisable      bool    // NCCL_PXN_DISABLE: no path to a NIC through another GPU
	PXNC2CDisable   bool    // NCCL_PXN_C2C=0: not if that GPU reaches the NIC through C2C
	NetDevs         NetDevs // NCCL_NETDEVS_POLICY
}

// Level is the farthest path type that something is used for. The zero value leaves it to NCCL.
type Level struct {
	Type PathType
	Set  bool
}

// UpTo is the level that allows a type and all better ones.
func UpTo(t PathType) Level { return Level{Type: t, Set: true} }

func (l Level) or(def PathType) PathType {
	if l.Set {
		return l.Type
	}
	return def
}

// Toggle is a switch that has a default of its own.
type Toggle int

const (
	ToggleAuto Toggle = iota
	ToggleOff
	ToggleOn
)

// NetDevs says how many network ports a GPU uses.
type NetDevs struct {
	All bool // all of its local ones
	Max int  // at most so many, if positive; else NCCL shares local ports evenly between the GPUs near them
}

// SettingsFromEnv fills the settings from variables; getenv returns "" for those that are not set. Values that NCCL
// does not recognise count as not set, as in NCCL.
func SettingsFromEnv(getenv func(string) string) Settings {
	number := func(name string, unset int64) int64 { return cnum.Param(getenv(name), unset) }
	s := Settings{
		WholeMLOPart:    getenv("NCCL_TOPO_SPLIT_MLOPART") == "0",
		P2PLevel:        levelOf(getenv("NCCL_P2P_LEVEL")),
		NVBDisable:      number("NCCL_NVB_DISABLE", 0) != 0,
		SHMDisable:      number("NCCL_SHM_DISABLE", 0) == 1,
		NetDisableIntra: number("NCCL_NET_DISABLE_INTRA", 0) == 1,
		GDRLevel:        levelOf(getenv("NCCL_NET_GDR_LEVEL")),
		GDRC2CDisable:   number("NCCL_NET_GDR_C2C", 1) == 0,
		GDRMLOPart:      number("NCCL_NET_GDR_MLOPART", 0) != 0,
		PXNDisable:      number("NCCL_PXN_DISABLE", 0) == 1,
		PXNC2CDisable:   number("NCCL_PXN_C2C", 1) == 0,
		NetDevs:         netDevsOf(getenv("NCCL_NETDEVS_POLICY")),
	}
	if cnum.Int(getenv("NCCL_P2P_DISABLE"), 0) == 1 {
		s.P2PLevel = UpTo(PathLOC)
	}
	switch read := number("NCCL_NET_GDR_READ", -1); {
	case read == 0:
		s.GDRRead = ToggleOff
	case read > 0:
		s.GDRRead = ToggleOn
	}
	return s
}

// levelOf reads a level: a path type, or the numbers 0 to 5 of NCCL before 2.4.
func levelOf(text string) Level {
	for t := PathLOC; t <= PathSYS; t++ {
		if text == t.String() {
			return UpTo(t)
		}
	}
	if text == "" || text[0] < '0' || text[0] > '9' {
		return Level{}
	}
	numbered := [...]PathType{PathLOC, PathPIX, PathPXB, PathPHB, PathSYS, PathSYS}
	return UpTo(numbered[min(cnum.Int(text, 0), int64(len(numbered)-1))])
}

func netDevsOf(text string) NetDevs {
	text = strings.ToUpper(text)
	if text == "ALL" {
		return NetDevs{All: true}
	}
	if n, ok := strings.CutPrefix(text, "MAX:"); ok {
		return NetDevs{Max: max(0, int(int32(cnum.Int(n, 10))))}
	}
	return NetDevs{}
}
