package target

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// Bounds of outputs.
const (
	// DefaultMaxOutput is how much of an output is kept, bytes, and MaxMaxOutput the most that may
	// be.
	DefaultMaxOutput = 1 << 20
	MaxMaxOutput     = 16 << 20
	// DefaultByteBudget is what long outputs of all attempts under way may take of memory together,
	// bytes.
	DefaultByteBudget = 128 << 20
	// freeOutput is what an output may have without a grant, bytes: slots are bounded too.
	freeOutput = 64 << 10
	// grantStep is by how much a grant grows at once, bytes.
	grantStep = 64 << 10
)

// ByteBudget is memory that the outputs of attempts under way share, beyond the first 64 KiB of
// each. A tenant gets more while it holds less than is left: one alone has half, and a newcomer
// finds some beside tenants that take all they can. An output that gets none is cut. It does not
// wait: memory may be given back slowly. A nil ByteBudget has no bound.
type ByteBudget struct {
	mu   sync.Mutex
	free int
	held map[string]int // by tenant; none is 0
}

// NewByteBudget returns a ByteBudget of so many bytes.
func NewByteBudget(bytes int) *ByteBudget {
	return &ByteBudget{free: bytes, held: make(map[string]int)}
}

// Use returns how many bytes are left, and how many tenants hold some.
func (r *ByteBudget) Use() (left, tenants int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.free, len(r.held)
}

// Grant returns what an output of a tenant holds: nothing yet.
func (r *ByteBudget) Grant(tenant string) ByteGrant { return ByteGrant{budget: r, tenant: tenant} }

// ByteGrant is what an output holds of a ByteBudget. The zero value has no bound.
type ByteGrant struct {
	budget *ByteBudget
	tenant string
	bytes  int
}

// grow takes a grantStep, or nothing.
func (h *ByteGrant) grow() bool {
	r := h.budget
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free < grantStep || r.held[h.tenant] >= r.free {
		return false
	}
	r.free -= grantStep
	r.held[h.tenant] += grantStep
	h.bytes += grantStep
	return true
}

// Fit takes memory for n bytes that are there already, and returns how many of them may be kept.
func (h *ByteGrant) Fit(n int) (keep int) {
	keep = min(n, freeOutput)
	for keep < n && h.grow() {
		keep = min(keep+grantStep, n)
	}
	return keep
}

// Release gives back all that was taken.
func (h *ByteGrant) Release() {
	if h.bytes == 0 {
		return
	}
	r := h.budget
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += h.bytes
	if r.held[h.tenant] -= h.bytes; r.held[h.tenant] == 0 {
		delete(r.held, h.tenant)
	}
	h.bytes = 0
}

// TrimPartialRune returns b without an incomplete character at its end.
func TrimPartialRune(b []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax, len(b)); i++ {
		if rest := b[len(b)-i:]; utf8.RuneStart(rest[0]) {
			if !utf8.FullRune(rest) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// Truncate returns the first n bytes of s, cut at a character's border, as valid UTF-8. What it
// cuts is a copy.
func Truncate(s string, n int) string {
	if len(s) > n {
		s = strings.Clone(s[:n]) // a slice would hold all of it
	}
	return strings.ToValidUTF8(s, "")
}
