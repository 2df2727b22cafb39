package executor

import (
	"context"
	"strings"
	"sync/atomic"
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

// Room is memory that the outputs of attempts under way share, beyond the first 64 KiB of each. Where there is none left an output is cut:
// nobody waits for room, since who has it may be slow to give it back. A nil Room has no bound.
type Room struct{ left atomic.Int64 }

// NewRoom returns a Room of so many bytes.
func NewRoom(bytes int64) *Room {
	r := new(Room)
	r.left.Store(bytes)
	return r
}

// take reserves n bytes, or none.
func (r *Room) take(n int) bool {
	if r == nil {
		return true
	}
	if r.left.Add(-int64(n)) < 0 {
		r.left.Add(int64(n))
		return false
	}
	return true
}

// hold reserves room for n bytes that are there already, and returns how many of them may be kept and what was taken for that.
func (r *Room) hold(n int) (keep, taken int) {
	for keep = min(n, freeOutput); keep < n && r.take(roomStep); keep = min(keep+roomStep, n) {
		taken += roomStep
	}
	return keep, taken
}

// give returns what was taken.
func (r *Room) give(n int) {
	if r != nil && n > 0 {
		r.left.Add(int64(n))
	}
}

// keepOutput writes the output where it does not fit the record of row, and says in the record how much there is. It comes before the
// record, so that what a record tells of can be read. It never loses the outcome: an output that cannot be written is cut.
func (a *attempt) keepOutput(row *schema.Attempt, res *Result) {
	x, rec, output := a.x, row.Record, res.Output
	defer x.room.give(res.taken)
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
