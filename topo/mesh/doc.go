// Package mesh is about clusters without a switch, where cables join ports of two nodes and each cable is a subnet of its
// own. From the nodes' addresses it tells which port reaches which peer, which pairs have no link, the best order of the
// nodes for a ring, and what rings and trees can reach.
//
// A Mesh comes from a file (Read), and is not changed afterwards. Bandwidths are GB/s (1e9
// B/s), each way.
package mesh
