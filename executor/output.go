package executor

import (
	"context"
	"strings"
	"sync"
	"unicode/utf8"

	"carillon.dev/carillon/schema"
)

// Bounds of outputs.
const (
	// DefaultMaxOutput is how much of an output is kept, bytes, and MaxMaxOutput the most that may be.
	DefaultMaxOutput = 1 << 20
	MaxMaxOutput     = 16 << 20
	// DefaultRoom is what long outputs of all attempts under way may take of memory together, bytes.
	DefaultRoom = 128 << 20
	// freeOutput is what an output may have without asking for room, bytes: slots are bounded too.
	freeOutput = 64 << 10
	// roomStep is how much room is asked for at once, bytes.
	roomStep = 64 << 10
)

// ByteBudget is memory that the outputs of attempts under way share, beyond the first 64 KiB of each. A tenant gets more while it holds less than is
// left, as flows of the dispatcher do (flowShare): one alone has half, and a newcomer finds some beside others that take all they can. Who finds none has
// its output cut: nobody waits for room, since who has it may be slow to give it back. A nil ByteBudget has no bound.
type ByteBudget struct {
	mu   sync.Mutex
	left int
	held map[string]int // by tenant; none is 0
}

// NewByteBudget returns a ByteBudget of so many bytes.
func NewByteBudget(bytes int) *ByteBudget { return &ByteBudget{left: bytes, held: make(map[string]int)} }

// of returns what an output of a tenant holds: nothing yet.
func (r *ByteBudget) of(tenant string) holding { return holding{room: r, tenant: tenant} }

// holding is what an output holds of a ByteBudget. The zero value has no bound.
type holding struct {
	room   *ByteBudget
	tenant string
	bytes  int
}

// more takes a roomStep, or nothing.
func (h *holding) more() bool {
	r := h.room
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left < roomStep || r.held[h.tenant] >= r.left {
		return false
	}
	r.left -= roomStep
	r.held[h.tenant] += roomStep
	h.bytes += roomStep
	return true
}

// fit takes room for n bytes that are there already, and returns how many of them may be kept.
func (h *holding) fit(n int) (keep int) {
	keep = min(n, freeOutput)
	for keep < n && h.more() {
		keep = min(keep+roomStep, n)
	}
	return keep
}

// give returns all that was taken.
func (h *holding) give() {
	if h.bytes == 0 {
		return
	}
	r := h.room
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left += h.bytes
	if r.held[h.tenant] -= h.bytes; r.held[h.tenant] == 0 {
		delete(r.held, h.tenant)
	}
	h.bytes = 0
}

// keepOutput writes the output where it does not fit the record of row, and says in the record how much there is. It comes before the
// record, so that what a record tells of can be read. It never loses the outcome: an output that cannot be written is cut.
func (a *attempt) keepOutput(row *schema.Attempt, res *Result) {
	x, rec, output := a.x, row.Record, res.Output
	defer res.room.give()
	rec.Output = head(string(output[:min(len(output), outputHead)]), outputHead)
	rec.OutputCut = res.OutputCut
	if len(rec.Output) == len(output) {
		return // all of it, and text
	}
	if len(output) > x.maxOutput {
		output, rec.OutputCut = output[:x.maxOutput], true
	}
	if rec.OutputCut {
		output = wholeRunes(output)
	}
	rec.OutputBinary = !utf8.Valid(output)
	bounded, cancel := context.WithTimeout(context.Background(), storeTimeout) // whatever has ended: the record follows
	defer cancel()
	whose := *row // a copy: the row of an attempt whose output fits its record, which is most, shall cost no allocation
	held, err := x.writer.SaveOutput(bounded, &whose, output)
	if rec.OutputSize = held; err != nil {
		rec.OutputCut = true
		x.log.Warn("an output could not be kept whole", "run", row.Run, "attempt", row.Number, "bytes", len(output), "kept", held, "err", err)
	}
	if rec.OutputCut {
		x.metrics.outputsCut.Inc()
	}
}

// wholeRunes returns b without a character at its end that is not complete.
func wholeRunes(b []byte) []byte {
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

// head returns the first n bytes of s, cut at a character's border, as valid UTF-8.
func head(s string, n int) string {
	if len(s) > n {
		s = strings.Clone(s[:n]) // a slice would hold all of it
	}
	return strings.ToValidUTF8(s, "")
}
