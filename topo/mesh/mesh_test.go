package mesh

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cycle"
)

// A triangle: each node has two ports and a cable to each other node.
const triangle = `node,nic,address,gbit_s
a,mlx5_0,192.168.101.2/24,100
a,mlx5_1,192.168.100.2/24,100
b,mlx5_0,192.168.101.3/255.255.255.0,100
b,mlx5_1,192.168.102.2/24,40
c,mlx5_0,192.168.100.3/24,200
c,mlx5_1,192.168.102.3/24,100
`

func readMesh(t *testing.T, text string) *Mesh {
	t.Helper()
	m, err := Read("mesh.csv", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func ExampleMesh_Links() {
	m, err := Read("mesh.csv", strings.NewReader(triangle))
	if err != nil {
		fmt.Println(err)
		return
	}
	const b, c = 1, 2 // in the order of the file
	for _, l := range m.Links(b, c) {
		fmt.Printf("%s reaches %s from %s (%s) at %s: %g GB/s\n", l.From, l.To, l.NIC, l.Address, l.PeerAddress, l.GBps)
	}
	// Output: b reaches c from mlx5_1 (192.168.102.2) at 192.168.102.3: 5 GB/s
}

func ExampleMesh_BestRing() {
	file, err := os.Open("../../configs/mesh/four-nodes.csv")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	m, err := Read(file.Name(), file)
	if err != nil {
		fmt.Println(err)
		return
	}
	ring, err := m.BestRing()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range ring.Order {
		fmt.Print(m.Nodes[n].Name, " ")
	}
	fmt.Printf("at %g GB/s\n", ring.GBps)
	trees, err := m.Trees(ring.Order)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("AllReduce: ring %.2f, trees %.2f GB/s, %d tree edges to relay\n", ring.AllReduceGBps,
		trees.AllReduceGBps, trees.Relayed)
	// Output:
	// a b c d at 12.5 GB/s
	// AllReduce: ring 8.33, trees 12.50 GB/s, 0 tree edges to relay
}

func TestMeshBandwidthIsThatOfAllCables(t *testing.T) {
	m := readMesh(t, `gbit_s,node,address,nic
# two cables with subnets of their own, and two that share one
100, a, 10.0.0.1/30, p0
100, b, 10.0.0.2/30, p0
40,  a, 10.0.0.5/30, p1
100, b, 10.0.0.6/30, p1
25,  a, fd00::1/64,  p2
100, a, fd00::2/64,  p3
50,  b, fd00::3/64,  p2
200, b, fd00::4/64,  p3
`)
	const want = (100 + 40 + 100 + 25) / 8.0 // the fastest ports of a shared subnet go together
	if got := m.BW(0, 1); got != want || m.BW(1, 0) != want {
		t.Errorf("bandwidth %g and %g, want %g", got, m.BW(1, 0), want)
	}
	for _, l := range m.Links(1, 0) {
		if l.From != "b" || l.To != "a" || l.Address.Is4() != l.PeerAddress.Is4() {
			t.Errorf("link %+v is not seen from node b", l)
		}
	}
}

func TestMeshWithoutADirectLinkNamesTheNodes(t *testing.T) {
	// A chain a - b - c, and d that nothing reaches.
	m := readMesh(t, `node,nic,address,gbit_s
a,p0,10.0.1.1/30,100
b,p0,10.0.1.2/30,100
b,p1,10.0.2.1/30,100
c,p0,10.0.2.2/30,100
d,p0,10.0.9.1/30,100
`)
	if got, want := m.Unlinked(), [][2]int{{0, 2}, {0, 3}, {1, 3}, {2, 3}}; !reflect.DeepEqual(got, want) {
		t.Errorf("unlinked %v, want %v", got, want)
	}
	if _, err := m.BestRing(); err == nil || err.Error() != "no way from a to d, not even over other nodes" {
		t.Errorf("error %v", err)
	}
}

func TestMeshWithoutARingNamesTheGap(t *testing.T) {
	m := readMesh(t, `node,nic,address,gbit_s
a,p0,10.0.1.1/30,100
b,p0,10.0.1.2/30,100
b,p1,10.0.2.1/30,100
c,p0,10.0.2.2/30,100
`)
	_, err := m.BestRing()
	if err == nil ||
		!regexp.MustCompile(`^no ring of direct links: the best order, .*, has none between (a and c|c and a)$`).
			MatchString(err.Error()) {
		t.Errorf("error %v", err)
	}
	trees, err := m.Trees([]int{0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	// a-c is an edge of both trees of three nodes and goes over b; the other edge is b-c in one and a-b in the other.
	if trees.Relayed != 2 || trees.GBps != 12.5/3 || trees.Depth != 2 {
		t.Errorf("%+v, want 2 relayed edges, and 12.5 GB/s shared by 3", trees)
	}
}

func TestMeshTreesAreNCCLs(t *testing.T) {
	for _, tt := range []struct {
		n, tree int
		want    []int
	}{
		{1, 0, []int{-1}},
		{2, 0, []int{-1, 0}},
		{2, 1, []int{1, -1}},
		{4, 0, []int{-1, 2, 0, 2}},
		{4, 1, []int{1, 3, 1, -1}},
		{5, 0, []int{-1, 2, 4, 2, 0}},
		{5, 1, []int{1, -1, 3, 0, 3}},
		{12, 0, []int{-1, 2, 4, 2, 8, 6, 4, 6, 0, 10, 8, 10}},
	} {
		if got := treeParents(tt.n, tt.tree); !slices.Equal(got, tt.want) {
			t.Errorf("tree %d of %d nodes: %v, want %v", tt.tree, tt.n, got, tt.want)
		}
	}
}

// meshOf makes a mesh with a cable for each pair whose bandwidth (in units of 8 Gbit/s) is not 0.
func meshOf(t testing.TB, bw [][]int) *Mesh {
	t.Helper()
	nodes := make([]Node, len(bw))
	cable := 0
	for a := range bw {
		nodes[a].Name = fmt.Sprintf("n%d", a)
		for b := range a {
			if bw[a][b] == 0 {
				continue
			}
			cable++
			for end, n := range []int{b, a} {
				ip := netip.AddrFrom4([4]byte{10, byte(cable >> 8), byte(cable), byte(end)})
				nodes[n].NICs = append(nodes[n].NICs, NIC{fmt.Sprint("p", cable), netip.PrefixFrom(ip, 31),
					float64(bw[a][b])})
			}
		}
	}
	m, err := newMesh(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// randomMesh has a cable between two nodes with the given chance, of one of four speeds.
func randomMesh(t testing.TB, rng *rand.Rand, n int, chance float64) *Mesh {
	bw := make([][]int, n)
	for a := range bw {
		bw[a] = make([]int, n)
		for b := range a {
			if rng.Float64() < chance {
				bw[a][b] = []int{1, 2, 5, 10}[rng.IntN(4)]
			}
		}
	}
	return meshOf(t, bw)
}

// rate returns the bandwidth of the narrowest step and of all steps.
func rate(m *Mesh, order []int) (least, sum float64) {
	for i, a := range order {
		sum += m.BW(a, order[(i+1)%len(order)])
	}
	return cycle.Width(m.bw, order), sum
}

// bestByTrying rates all orders that start at node 0; 0: none has all links.
func bestByTrying(m *Mesh) (least, sum float64) {
	var try func(order []int)
	try = func(order []int) {
		if len(order) == len(m.Nodes) {
			if l, s := rate(m, order); l > least || l == least && s > sum {
				least, sum = l, s
			}
			return
		}
		for n := range m.Nodes {
			if !slices.Contains(order, n) {
				try(append(slices.Clone(order), n))
			}
		}
	}
	try([]int{0})
	return least, sum
}

func TestBestRingIsTheBestOfAllOrders(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	rings := 0
	for i := range 60 {
		m := randomMesh(t, rng, 1+i%7, 0.4+0.1*float64(i%7))
		least, sum := bestByTrying(m)
		found := least > 0 || len(m.Nodes) == 1
		got, err := m.BestRing()
		if found != (err == nil) {
			t.Fatalf("mesh %d: error %v, but a ring exists: %t", i, err, found)
		}
		if !found {
			continue
		}
		rings++
		if _, of := rate(m, got.Order); got.GBps != least || least > 0 && of != sum || !got.Exact {
			t.Errorf("mesh %d: %+v, %g in all; want %g, %g", i, got, of, least, sum)
		}
	}
	if rings < 20 {
		t.Errorf("only %d of the meshes had a ring", rings)
	}
}

// The heuristic must find rings where there are, and their narrowest step should hardly ever be worse than the best.
func TestHeuristicRing(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	best, all := 0, 0
	for range 40 {
		m := randomMesh(t, rng, 9, 0.7)
		exact, err := m.BestRing()
		if err != nil {
			continue
		}
		all++
		order, _ := m.bw.Widest(0)
		if cycle.Width(m.bw, order) == exact.GBps {
			best++
		}
	}
	if all < 20 || best*100 < all*95 {
		t.Errorf("found the widest ring in %d of %d meshes, want 95%%", best, all)
	}
}

func TestBestRingOfALargeMesh(t *testing.T) {
	// A 6 x 6 torus whose rows are twice as fast as its columns; a ring must change rows.
	const side = 6
	bw := make([][]int, side*side)
	for a := range bw {
		bw[a] = make([]int, side*side)
	}
	join := func(a, b, gbps int) { bw[max(a, b)][min(a, b)] = gbps }
	for row := range side {
		for col := range side {
			join(row*side+col, row*side+(col+1)%side, 20)
			join(row*side+col, (row+1)%side*side+col, 10)
		}
	}
	m := meshOf(t, bw)
	r, err := m.BestRing()
	if err != nil {
		t.Fatal(err)
	}
	if r.Exact || r.GBps != 10 || len(r.Order) != side*side || r.Order[0] != 0 {
		t.Errorf("%+v", r)
	}
	_, sum := rate(m, r.Order)
	if fast := 5.0 / 6 * 20 * side * side; sum < 0.9*fast {
		t.Errorf("sum %g, want near that of a snake, %g", sum, fast)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(triangle)
	f.Add("node,nic,address,gbit_s\na,\"p\n0\",10.0.0.1/33,1e400\n#\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Read("mesh.csv", strings.NewReader(text))
		if err != nil {
			return
		}
		for a := range m.Nodes {
			for b := range m.Nodes {
				if m.BW(a, b) != m.BW(b, a) || a == b && m.BW(a, b) != 0 {
					t.Errorf("bandwidth %d-%d is %g, back %g", a, b, m.BW(a, b), m.BW(b, a))
				}
			}
		}
	})
}

func BenchmarkBestRing(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{8, 16, 64, 256} {
		m := randomMesh(b, rng, n, 0.5)
		b.Run(fmt.Sprint("nodes=", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := m.BestRing(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
