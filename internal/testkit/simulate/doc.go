// Package simulate tells how long a collective takes where there is no cluster. The sweeps in
// configs/sweeps are of it, and fakeperf plays nccl-tests with it, to try out and to test what measures
// and learns. Every sample is marked as simulated, in Sample.Simulated and in its source.
//
// There are two kinds of clusters. A Measured one interpolates between the times of real sweeps. A
// Drawn one has a Truth, which begins with NCCL's estimates of latency and bandwidth. It adds what
// real clusters show and the estimates do not know:
//
//   - Machines differ from the constants in NCCL, which were fitted elsewhere: latency and bandwidth
//     of each algorithm and protocol are off by some part. LL's bandwidth limits are the oldest and
//     the most pessimistic.
//   - A channel moves only so much. Few channels do not fill the links, the last ones add little.
//   - A channel that gets too few bytes stays unused. At small sizes many channel counts take the
//     same time.
//   - Latency grows with the channels. Each is a block more to launch and, over nodes, one more
//     message in each step of the ring.
//   - Many channels contend for the NICs, more so on more nodes.
//   - Data goes in chunks. A last chunk that is not full wastes part of a loop, which shows as
//     ripples where channels are no power of two. A tree's pipeline must fill before it streams.
//   - Times step between sizes: the network changes from eager to rendezvous, buffers outgrow the
//     GPU's L2 cache, code paths change.
//
// NCCL's choice comes from its uncorrected estimates. It is near the best at many sizes and up to
// about twice too slow at some.
//
// Without noise, the time of one configuration never falls as the size grows. Noise has heavy tails
// and is largest at small sizes. Part of it is common to all sizes of one run. Now and then a
// measurement is far too slow.
//
// Equal options give equal samples, because numbers come from PCG. A cell's numbers do not depend
// on which other cells are asked for.
package simulate
