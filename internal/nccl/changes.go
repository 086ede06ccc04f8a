package nccl

// Change is something that NCCL does since a release, the value. Sources: the host code of the releases at both sides
// of it, files as named in each group.
type Change int

// Of the topology and its paths (graph/topo.cc, topo.h, paths.cc).
const (
	// P2PNotThroughCPUs: peer-to-peer through a CPU is off by default but for two GPUs on AMD. Before, it is on except
	// for CPUs of ARM, Intel and Zhaoxin.
	P2PNotThroughCPUs Change = 22304
	// BlackwellLinks: NVLinks of Blackwell have a bandwidth of their own, 40 GB/s; before, Hopper's.
	BlackwellLinks Change = 22501
	// C2CLinks: chip-to-chip links are a type of link. Before, they count as NVLinks.
	C2CLinks Change = 22602
	// ServerCPUs: UPI of Sapphire and Emerald Rapids is faster than that of Skylake.
	ServerCPUs Change = 22602
	// P2CPaths: a way through a chip-to-chip link to a NIC of the CPU is a type of path, and GPUDirect RDMA uses it.
	P2CPaths Change = 22703
	// WiderBlackwellLinks: 40.1 GB/s instead of 40.
	WiderBlackwellLinks Change = 22705
	// PXNThroughC2C: a GPU that reaches a NIC that way may relay for others by default.
	PXNThroughC2C Change = 22803
	// P2CNearestNICs: only the nearest NICs of a GPU count as P2C.
	P2CNearestNICs Change = 22902
	// BestTypePaths: of two paths the one of the better type wins, then the wider, then the shorter one. Before, a path
	// is replaced by a wider one that is not longer.
	BestTypePaths Change = 23007
	// NICsSharedByGPUs: GPUs near the same NICs start with a NIC by their number modulo the number of these GPUs;
	// before, by their number. From NICsSharedOnCX8 on only Blackwell with ConnectX-8 does so.
	NICsSharedByGPUs Change = 23007
	NICsSharedOnCX8  Change = 23100
	// NewerCPUs: the bandwidth between AMD CPUs depends on their generation; before, it is 16 GB/s. Granite Rapids is
	// known, too.
	NewerCPUs Change = 23100
)

// Of the search for channels (graph/search.cc).
const (
	// CrossedRings: channels that change NICs come in pairs of rings; trees just may. Before, all patterns alternate.
	CrossedRings Change = 22304
	// Channels64: at most 64 channels, before 32 (device.h).
	Channels64 Change = 22501
	// BlackwellSpeeds: Blackwell has speeds of its own to try.
	BlackwellSpeeds Change = 22501
	// PathRange: the search goes from the best to the worst type of path that there is, instead of from NVL and PIX
	// to SYS.
	PathRange Change = 22501
	// TwoRingsAcrossSockets: with NVLink on both sockets but not between them, at least two rings.
	TwoRingsAcrossSockets Change = 22602
	// NICsOwnGPU: channels enter from a NIC through its own GPU first, and a search for equal channels repeats the
	// one before only.
	NICsOwnGPU Change = 22705
	// FarNICsBeforeHopper: GPUs older than Hopper may reach NICs at any distance.
	FarNICsBeforeHopper Change = 22902
)

// Of the number of channels (graph/connect.cc, transport/nvls.cc).
const (
	// FourPerRingOnBlackwell: the channels of few fast rings are doubled for Hopper and later, before for Hopper alone.
	FourPerRingOnBlackwell Change = 22501
	// NVLSChannelsCount: ring and tree get as many channels as NVLS if they have fewer; until OwnNVLSChannels.
	NVLSChannelsCount Change = 22203
	// NVLSChannels32: 32 channels for NVLS on Blackwell instead of 16.
	NVLSChannels32 Change = 22501
	// NVLSChannels24: 24 of them on one node.
	NVLSChannels24 Change = 22703
	// OwnNVLSChannels: ring and tree keep their channels whatever NVLS has.
	OwnNVLSChannels Change = 22803
	// NVLSForTwo: NVLS for two GPUs in a domain; before, from three on.
	NVLSForTwo Change = 22807
	// NVLSChannelsByNIC: on several nodes of Blackwell the number depends on the NICs.
	NVLSChannelsByNIC Change = 23003
)

// Of the estimates (graph/tuning.cc, since 2.31 tuning/*.cc).
const (
	// PAT is the algorithm.
	PAT Change = 22304
	// NewTreeLatencies: trees with Simple cost a base latency and less per hop.
	NewTreeLatencies Change = 22304
	// ExposedNetLatency: with one rank per node the network's latency counts in full; before, rings lose bandwidth with
	// LL128 instead, and AllReduce counts two more steps over the network.
	ExposedNetLatency Change = 22304
	// PlainNVLSGathers: the bandwidth of NVLS for AllGather and ReduceScatter is not converted.
	PlainNVLSGathers Change = 22304
	// SlowerPAT: PAT moves 75 % of the bandwidth instead of 85 %.
	SlowerPAT Change = 22403
	// NoBackupRing: if NCCL_ALGO and NCCL_PROTO leave nothing, the collective fails. Before, rings are used.
	NoBackupRing Change = 22403
	// PerCollective: NCCL_ALGO and NCCL_PROTO may name collectives, and a word that NCCL does not know is an error.
	PerCollective Change = 22403
	// BlackwellCosts: Blackwell has constants of its own; before, Hopper's.
	BlackwellCosts Change = 22501
	// SharedTreePattern: ranks tell each other the pattern of their trees.
	SharedTreePattern Change = 22602
	// LL128Everywhere: LL128 on all GPUs since Volta; before, on compute capability 7.0, 8.0, 9.0, 10.0 and 12.0.
	LL128Everywhere Change = 22703
	// NVLSGatherShare: NVLS loses a rank's share in AllGather and ReduceScatter.
	NVLSGatherShare Change = 22703
	// NewCollNetGathers: CollNetDirect is as fast as its network in AllGather and ReduceScatter.
	NewCollNetGathers Change = 22703
	// NVLSEfficiency: NVLS and NVLSTree reach a share of the links that depends on the GPU.
	NVLSEfficiency Change = 22803
	// CorrectedNVLSTree: NVLSTree on Blackwell and x86 has trees' correction by size.
	CorrectedNVLSTree Change = 22902
	// CappedNVLSChannels: NVLS over several nodes has at most ring's channels.
	CappedNVLSChannels Change = 22902
	// Models: each algorithm has a model of its own, with other rules for Blackwell, ties and variables.
	Models Change = 23100
	// LateConstants: NCCL sets its constants after the tuner's init; until EarlyConstants.
	LateConstants  Change = 23100
	EarlyConstants Change = 23203
	// GradualPlateau: on one node of Blackwell the plateau of ring/simple holds for AllReduce, too. It grows with the
	// steps and shrinks with the size.
	GradualPlateau Change = 23203
	// ShorterCorrection: the correction of NVLSTree for Blackwell with Arm on two nodes ends at 64 MiB, before at 512.
	ShorterCorrection Change = 23203
	// UncheckedAllGathers: a tuner's channels for AllGather are used for groups of broadcasts without a check
	// (scheduler/allgatherv_sched.cc); until CheckedAllGathers.
	UncheckedAllGathers Change = 22902
	CheckedAllGathers   Change = 23100
	// PATOnManyRanks: PAT on nodes of several ranks, with NVLS. It is offered and never NCCL's own choice
	// (tuning/tuning_pat.cc).
	PATOnManyRanks Change = 23102
	// ChannelsOnlyLower: a tuner's channels count only where they are fewer than NCCL's own.
	ChannelsOnlyLower Change = 23100
)

// Of the tuner and the profiler ABI (include/plugin/tuner, include/plugin/profiler).
const (
	// TellsRegistered: a tuner is told whether buffers are registered.
	TellsRegistered Change = 22403
	// TellsName: a profiler is told a communicator's name.
	TellsName Change = 22703
	// ChunkSizes: a tuner is asked for chunk sizes.
	ChunkSizes Change = 23003
)

// Of the environment (misc/param.cc).
const (
	// DropsCR: the carriage return at the end of a line of nccl.conf is no part of the value.
	DropsCR Change = 23003
)
