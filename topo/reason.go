package topo

// Reason is what a decision on peer-to-peer or GPUDirect RDMA follows from.
type Reason int

const (
	NearEnough  Reason = iota // the path is not farther than the level
	TooFar                    // it is
	NICUnable                 // the net plugin does not offer GPUDirect RDMA on the port
	GPUUnable                 // the GPU or its driver does not
	Partitioned               // the GPU has memory partitions
	ReadsOff                  // a NIC should not read this GPU
)
