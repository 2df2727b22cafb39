package workflow

import (
	"slices"
	"strings"
)

// Bounds of what is said about cycles.
const (
	maxCycles    = 10 // cycles that are named
	maxCyclePath = 20 // steps of one of them that are named
)

// order is a graph of n nodes in an order in which each comes after those before it.
type order struct {
	after, before [][]int32 // the direct neighbours of each node; after[i] run before i
	sorted        []int32   // without those that lie in a cycle or after one
	cycles        [][]int32 // each begins with its lowest node, in running order
	unreachable   []int32   // lie after a cycle, but in none
	ancestors     []uint64  // words of them for each node: bit j of i: j runs before i
	words         int
}

// sortSteps sorts a graph. after are the nodes directly before each node; before is its inverse.
func sortSteps(after [][]int32) order {
	n := len(after)
	o := order{after: after, before: inverse(after), words: (n + 63) / 64}
	waiting := make([]int32, n)
	o.sorted = make([]int32, 0, n)
	for i := range n {
		if waiting[i] = int32(len(after[i])); waiting[i] == 0 { // #nosec G115 -- at most MaxSteps
			o.sorted = append(o.sorted, int32(i)) // #nosec G115
		}
	}
	for at := 0; at < len(o.sorted); at++ {
		for _, j := range o.before[o.sorted[at]] {
			if waiting[j]--; waiting[j] == 0 {
				o.sorted = append(o.sorted, j)
			}
		}
	}
	o.findAncestors()
	if len(o.sorted) < n {
		o.findCycles(waiting)
	}
	return o
}

// inverse returns the nodes directly after each node, in their order.
func inverse(after [][]int32) [][]int32 {
	counts, total := make([]int, len(after)), 0
	for _, list := range after {
		total += len(list)
		for _, j := range list {
			counts[j]++
		}
	}
	all := make([]int32, total)
	before := make([][]int32, len(after))
	for j, n := range counts {
		before[j], all = all[:0:n], all[n:]
	}
	for i, list := range after {
		for _, j := range list {
			before[j] = append(before[j], int32(i)) // #nosec G115
		}
	}
	return before
}

func (o *order) findAncestors() {
	o.ancestors = make([]uint64, len(o.after)*o.words)
	for _, i := range o.sorted {
		row := o.row(i)
		for _, j := range o.after[i] {
			for w, bits := range o.row(j) {
				row[w] |= bits
			}
			row[j/64] |= 1 << (j % 64)
		}
	}
}

func (o *order) row(i int32) []uint64 { return o.ancestors[int(i)*o.words:][:o.words] }

// runsBefore reports whether j always starts before i: it lies on a path to i.
func (o *order) runsBefore(j, i int) bool { return o.row(int32(i))[j/64]&(1<<(j%64)) != 0 } // #nosec G115

// findCycles finds the cycles among the nodes that still wait for others. Each node of a cycle lies
// on one that is named, up to maxCycles.
func (o *order) findCycles(waiting []int32) {
	parts := o.components()
	named := make([]bool, len(o.after))
	for i, part := range parts {
		switch cyclic := parts[i].size > 1 || slices.Contains(o.after[i], int32(i)); { // #nosec G115
		case !cyclic && waiting[i] > 0:
			o.unreachable = append(o.unreachable, int32(i)) // #nosec G115
		case cyclic && !named[i] && len(o.cycles) < maxCycles:
			path := o.cycleThrough(int32(i), parts, part.root) // #nosec G115
			for _, j := range path {
				named[j] = true
			}
			low := slices.Index(path, slices.Min(path))
			o.cycles = append(o.cycles, slices.Concat(path[low:], path[:low]))
		}
	}
}

// component is the set of nodes that lie on cycles with a node. root names it.
type component struct{ root, size int32 }

// components returns the strongly connected component of each node, by Tarjan's algorithm.
func (o *order) components() []component {
	n := len(o.after)
	parts := make([]component, n)
	seen, low := make([]int32, n), make([]int32, n) // from 1 on
	open := make([]bool, n)
	var stack []int32
	count := int32(0)
	var visit func(i int32)
	visit = func(i int32) {
		count++
		seen[i], low[i], open[i] = count, count, true
		stack = append(stack, i)
		for _, j := range o.before[i] {
			if seen[j] == 0 {
				visit(j)
				low[i] = min(low[i], low[j])
			} else if open[j] {
				low[i] = min(low[i], seen[j])
			}
		}
		if low[i] < seen[i] {
			return
		}
		from := slices.Index(stack, i)
		for _, j := range stack[from:] {
			open[j] = false
			parts[j] = component{root: i, size: int32(len(stack) - from)} // #nosec G115
		}
		stack = stack[:from]
	}
	for i := range n {
		if seen[i] == 0 {
			visit(int32(i)) // #nosec G115
		}
	}
	return parts
}

// cycleThrough returns a shortest cycle through node i, from it on in running order. There is one
// within its component.
func (o *order) cycleThrough(i int32, parts []component, root int32) []int32 {
	from := make([]int32, len(o.after)) // the node before each on a shortest path, plus 1
	queue := []int32{i}
	for at := 0; ; at++ {
		for _, j := range o.before[queue[at]] {
			if j == i {
				var path []int32
				for k := queue[at]; k != i; k = from[k] - 1 {
					path = append(path, k)
				}
				path = append(path, i)
				slices.Reverse(path)
				return path
			}
			if parts[j].root == root && from[j] == 0 {
				from[j] = queue[at] + 1
				queue = append(queue, j)
			}
		}
	}
}

// cyclePath writes a cycle of names: "a → b → a".
func cyclePath(names []string) string {
	if over := len(names) - maxCyclePath; over > 0 {
		head, tail := names[:maxCyclePath/2], names[len(names)-maxCyclePath/2:]
		names = slices.Concat(head, []string{"…"}, tail)
	}
	return strings.Join(append(slices.Clone(names), names[0]), " → ")
}
