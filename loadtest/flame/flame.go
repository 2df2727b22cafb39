package flame

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

const (
	width     = 1200 // of the picture, px
	row       = 17   // height of a bar
	head      = 52   // above the bars
	glyph     = 6.6  // width of a character of 11 px, about
	leastPart = 0.002
)

// node is a function below its callers.
type node struct {
	name     string
	samples  int64 // CPU ns of it and of what it called
	children map[string]*node
}

// owner is the part of the program that a function belongs to.
type owner struct {
	name, color string
	prefixes    []string
}

// owners in order of precedence; the last one takes the rest.
var owners = []owner{
	{"intake (bucketer)", "#7fb3d5", []string{"carillon.dev/carillon/bucketer"}},
	{"dispatcher", "#f0b27a", []string{"carillon.dev/carillon/dispatcher"}},
	{"executor", "#82c99d", []string{"carillon.dev/carillon/executor"}},
	{"store (schema)", "#bb8fce", []string{"carillon.dev/carillon/schema"}},
	{"other of ours", "#aab7b8", []string{"carillon.dev/"}},
	{"Cassandra driver", "#d7bde2", []string{"github.com/gocql/"}},
	{"NATS client", "#f5cba7", []string{"github.com/nats-io/"}},
	{"JSON", "#f9e79f", []string{"encoding/json"}},
	{"HTTP, network, system calls", "#aed6f1", []string{"net.", "net/", "internal/poll", "syscall.", "internal/runtime/syscall", "internal/syscall", "crypto/", "bufio."}},
	{"garbage and memory", "#e6b0aa", []string{"runtime.gc", "runtime.mallocgc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.newobject", "runtime.makeslice", "runtime.growslice", "runtime.(*mheap)", "runtime.(*mcache)", "runtime.(*mcentral)", "runtime.memclr"}},
	{"Go scheduler, other", "#e5e7e9", []string{""}},
}

// ownerOf returns the owner of a function.
func ownerOf(name string) owner {
	for _, o := range owners {
		for _, p := range o.prefixes {
			if strings.HasPrefix(name, p) {
				return o
			}
		}
	}
	return owners[len(owners)-1]
}

// Draw reads a CPU profile as net/http/pprof serves it, and writes its flame graph as SVG.
// Functions with less than 0.2 % of the samples are left out.
func Draw(w io.Writer, cpu io.Reader, title string) error {
	p, err := profile.Parse(cpu)
	if err != nil {
		return fmt.Errorf("flame graph: read profile: %w", err)
	}
	root, err := tree(p)
	if err != nil {
		return fmt.Errorf("flame graph: %w", err)
	}
	if _, err := w.Write(draw(root, title)); err != nil {
		return fmt.Errorf("flame graph: %w", err)
	}
	return nil
}

// tree merges the stacks of a profile.
func tree(p *profile.Profile) (*node, error) {
	value := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == "cpu" })
	if value < 0 {
		return nil, fmt.Errorf("not a CPU profile")
	}
	root := &node{name: "all"}
	for _, s := range p.Sample {
		v := s.Value[value]
		root.samples += v
		at := root
		for _, location := range slices.Backward(s.Location) {
			// the last one is the caller of those inlined into it
			for _, line := range slices.Backward(location.Line) {
				at = at.child(line.Function.Name)
				at.samples += v
			}
		}
	}
	if root.samples == 0 {
		return nil, fmt.Errorf("the profile has no samples")
	}
	return root, nil
}

func (n *node) child(name string) *node {
	c, ok := n.children[name]
	if !ok {
		if n.children == nil {
			n.children = make(map[string]*node)
		}
		c = &node{name: name}
		n.children[name] = c
	}
	return c
}

// shown returns the children that are wide enough, in order of owner, then of name.
func (n *node) shown(least int64) []*node {
	return slices.SortedFunc(func(yield func(*node) bool) {
		for c := range maps.Values(n.children) {
			if c.samples >= least && !yield(c) {
				return
			}
		}
	}, func(a, b *node) int { return cmp.Compare(a.name, b.name) })
}

// depth returns how many rows n and its shown children take.
func (n *node) depth(least int64) int {
	deepest := 0
	for _, c := range n.shown(least) {
		deepest = max(deepest, c.depth(least))
	}
	return 1 + deepest
}

// draw writes the picture.
func draw(root *node, title string) []byte {
	least := int64(leastPart * float64(root.samples))
	var b bytes.Buffer
	height := head + row*root.depth(least) + 6
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#ffffff"/><text x="6" y="18" font-size="14">%s</text>`+"\n", escaped(title))
	x := 6.0
	for _, o := range owners {
		fmt.Fprintf(&b, `<rect x="%.0f" y="28" width="11" height="11" fill="%s"/><text x="%.0f" y="38" font-size="10">%s</text>`+"\n", x, o.color, x+15, escaped(o.name))
		x += 22 + glyph*0.85*float64(len(o.name))
	}
	root.draw(&b, 0, 0, least, float64(root.samples))
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// draw writes n, x samples from the left in the row of that level, and its children.
func (n *node) draw(b *bytes.Buffer, x int64, level int, least int64, all float64) {
	left, wide, top := width*float64(x)/all, width*float64(n.samples)/all, head+row*level
	fmt.Fprintf(b, `<g><title>%s: %.1f %%</title><rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`,
		escaped(n.name), 100*float64(n.samples)/all, left, top, max(wide-0.4, 0.3), row-1, ownerOf(n.name).color)
	if room := int((wide - 4) / glyph); room >= 4 {
		label := n.name[strings.LastIndexByte(n.name, '/')+1:]
		if len(label) > room {
			label = label[:room-1] + "…"
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%d">%s</text>`, left+2, top+12, escaped(label))
	}
	b.WriteString("</g>\n")
	for _, c := range n.shown(least) {
		c.draw(b, x, level+1, least, all)
		x += c.samples
	}
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return b.String()
}
