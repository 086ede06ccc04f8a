// Package mesh describes clusters without a switch, where each cable joins two nodes and is a subnet of its own. From
// the addresses of the ports it tells which port reaches which peer, which pairs have no cable, the best order of the
// nodes for a ring, and what rings and trees can reach.
//
// Read makes a Mesh from a file. A Mesh does not change afterwards. Bandwidths are GB/s (1e9 B/s), each way.
package mesh
