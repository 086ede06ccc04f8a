// Package simulate makes up sweeps: the samples that nccl-tests would have
// measured on a cluster that does not exist. They serve to try out and to test
// what learns from sweeps where there is no cluster. Every sample is marked as
// simulated, in Sample.Simulated and in its source.
//
// The Truth of such a cluster begins with NCCL's own cost model of a
// communicator, its latencies and bandwidths, and adds what real clusters show
// and that model does not know. It does not know the number of channels at all.
//
//   - Machines differ from the constants in NCCL, which were fitted elsewhere:
//     latency and bandwidth of each algorithm and protocol are off by some part.
//     LL's bandwidth limits are the oldest of them and the most pessimistic.
//   - A channel moves only so much: few channels do not fill the links, and the
//     last ones add little.
//   - A channel that gets too few bytes stays unused, so that at small sizes many
//     channel counts take the same time.
//   - A channel more is a block more to launch and, over nodes, one more message
//     per step of the ring: latency grows with the channels.
//   - Many channels contend for the NICs, the more so the more nodes there are.
//   - Data goes in chunks: a last chunk that is not full wastes part of a loop,
//     which shows as ripples where channels are no power of two; a tree's pipeline
//     must fill before it streams.
//   - Steps between sizes: the network's protocol changes from eager to
//     rendezvous, buffers outgrow the GPU's L2 cache, code paths change.
//
// What NCCL would choose by itself comes from its uncorrected model, so the
// default is near the best at many sizes and up to about twice too slow at some.
//
// Without noise, the time of one configuration never falls as the size grows.
// Noise has heavy tails, is largest at small sizes, is in part common to all
// sizes of one run, and now and then a measurement is far too slow.
//
// Equal options give equal samples: numbers come from PCG. A cell's numbers do not depend
// on which other cells are asked for.
package simulate
