package agree

import "testing"

// Ranks that have made different calls have different hashes of all calls, however regular
// the calls are. Those that have made the same in another order have the same.
func TestAllTellsCallsApart(t *testing.T) {
	t.Parallel()
	var calls []uint64
	largest := uint64(64 << 30)
	if testing.Short() {
		largest = 1 << 20
	}
	for bytes := uint64(4); bytes <= largest; bytes *= 16 {
		for coll := range 5 {
			for pipeOps := 1; pipeOps <= 2; pipeOps++ {
				calls = append(calls, HashCall(coll, bytes, pipeOps), HashCall(coll, 3*bytes, pipeOps))
			}
		}
	}
	all := func(calls ...uint64) uint64 {
		var c Counter
		c.All.Store(1)
		for _, call := range calls {
			c.Add(call)
		}
		return c.All.Load()
	}
	seen := map[uint64][3]uint64{}
	for i, a := range calls {
		for j, b := range calls[:i+1] {
			for _, c := range calls[:j+1] {
				hash := all(a, b, c)
				if before, there := seen[hash]; there {
					t.Fatalf("%x and %x have one hash, %x", before, [3]uint64{a, b, c}, hash)
				}
				seen[hash] = [3]uint64{a, b, c}
				if other := all(c, a, b); other != hash {
					t.Fatalf("%x have hashes %x and %x, by their order", [3]uint64{a, b, c}, hash, other)
				}
			}
		}
	}
}
