package sealed

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"carillon.dev/carillon/schema"
)

// contents is what is sealed of a record.
type contents struct {
	Error    string `json:"error,omitempty"`
	Output   string `json:"output,omitempty"`
	Progress string `json:"progress,omitempty"`
}

// contentsOf returns what is to be sealed of a record.
func contentsOf(r *schema.Record) contents {
	c := contents{Error: r.Error, Output: r.Output}
	if r.Progress != nil {
		c.Progress = r.Progress.Text
	}
	return c
}

// placeOfRecord is what a record is sealed for. It is the same in attempts, in leases and in dead
// letters.
func placeOfRecord(run schema.RunID, number int) string {
	return "record\x00" + run.String() + "\x00" + strconv.Itoa(number)
}

// notKept is what a record says instead of what could not be sealed.
const notKept = "error and output are not kept: the tenant asks for encryption, and no key is configured (secrets.keys)"

// record returns a record as it is stored: a copy if anything is sealed.
func (b *box) record(ctx context.Context, tenant string, run schema.RunID, number int, r *schema.Record) *schema.Record {
	if r == nil || tenant == "" || r.Sealed != "" {
		return r
	}
	c := contentsOf(r)
	if c == (contents{}) || !b.seals(ctx, tenant) {
		return r
	}
	stored := *r
	stored.Error, stored.Output = "", ""
	if stored.Progress != nil {
		p := *stored.Progress
		p.Text = ""
		stored.Progress = &p
	}
	text, err := json.Marshal(c)
	var sealed []byte
	if err == nil {
		sealed, err = b.keys.SealRow(text, placeOfRecord(run, number))
		stored.Sealed = base64.StdEncoding.EncodeToString(sealed)
	}
	if err != nil { // the outcome counts for more than what it says
		stored.Error, stored.OutputCut = notKept, true
	}
	return &stored
}

// openRecord opens a record in place, or says in Error why it cannot.
func (b *box) openRecord(run schema.RunID, number int, r *schema.Record) {
	if r == nil || r.Sealed == "" {
		return
	}
	sealed, err := base64.StdEncoding.DecodeString(r.Sealed)
	var text []byte
	if err == nil {
		text, err = b.openRow(sealed, placeOfRecord(run, number))
	}
	var c contents
	if err == nil {
		c, err = schema.Decode[contents](text, "sealed record")
	}
	if err != nil {
		r.Error = "error and output: " + err.Error()
		return
	}
	r.Error, r.Output, r.Sealed = c.Error, c.Output, ""
	if r.Progress != nil {
		r.Progress.Text = c.Progress
	}
}

// attempt returns an attempt as it is stored.
func (b *box) attempt(ctx context.Context, a schema.Attempt) schema.Attempt {
	a.Record = b.record(ctx, a.Tenant, a.Run, a.Number, a.Record)
	return a
}

// SealAttempt returns an attempt as it is stored: what a lease says of it must be sealed too.
func (s runRows) SealAttempt(ctx context.Context, a schema.Attempt) schema.Attempt {
	return s.box.attempt(ctx, a)
}

// PutAttempts implements schema.AttemptStore.
func (s runRows) PutAttempts(ctx context.Context, attempts []schema.Attempt) error {
	stored := attempts
	for i := range attempts {
		a := s.box.attempt(ctx, attempts[i])
		if a.Record == attempts[i].Record {
			continue
		}
		if &stored[0] == &attempts[0] {
			stored = slices.Clone(attempts)
		}
		stored[i] = a
	}
	return s.inner.PutAttempts(ctx, stored)
}

// Attempts implements schema.AttemptStore.
func (s runRows) Attempts(ctx context.Context, p schema.Partition, runs []schema.RunID) ([]schema.Attempt, error) {
	attempts, err := s.inner.Attempts(ctx, p, runs)
	for i := range attempts {
		s.box.openRecord(attempts[i].Run, attempts[i].Number, attempts[i].Record)
	}
	return attempts, err
}

// verbatim stands before a part that is not sealed and begins as if it were.
var verbatim = []byte("\x00cs\x00")

func placeOfPart(run schema.RunID, kind schema.PartKind, k schema.PartKey) string {
	return fmt.Sprintf("part\x00%s\x00%d\x00%d\x00%d\x00%d", run, kind, k.Attempt, k.Fence, k.Number)
}

// PutPart implements schema.OutputStore.
func (s runRows) PutPart(ctx context.Context, run schema.RunID, kind schema.PartKind, p schema.Part, written int64, expires time.Time) error {
	switch {
	case p.Tenant != "" && s.box.seals(ctx, p.Tenant):
		data, err := s.box.keys.SealRow(p.Data, placeOfPart(run, kind, p.PartKey))
		if err != nil {
			return err
		}
		p.Data = data
	case schema.IsSealed(p.Data) || bytes.HasPrefix(p.Data, verbatim): // an output may be any bytes
		p.Data = append(slices.Clone(verbatim), p.Data...)
	}
	return s.inner.PutPart(ctx, run, kind, p, written, expires)
}

// openPart returns the data of a part, or schema.ErrSealed.
func (b *box) openPart(run schema.RunID, kind schema.PartKind, p *schema.Part) (err error) {
	if rest, plain := bytes.CutPrefix(p.Data, verbatim); plain {
		p.Data = rest
	} else if schema.IsSealed(p.Data) {
		p.Data, err = b.openRow(p.Data, placeOfPart(run, kind, p.PartKey))
	}
	return err
}

// Parts implements schema.OutputStore. After schema.ErrSealed there are those before the one that
// cannot be opened.
func (s runRows) Parts(ctx context.Context, run schema.RunID, kind schema.PartKind, after schema.PartKey, limit int) ([]schema.Part, error) {
	parts, err := s.inner.Parts(ctx, run, kind, after, limit)
	for i := range parts {
		if err := s.box.openPart(run, kind, &parts[i]); err != nil {
			return parts[:i], fmt.Errorf("part %d of attempt %d of %s: %w", parts[i].Number, parts[i].Attempt, run, err)
		}
	}
	return parts, err
}

// LastPart implements schema.OutputStore.
func (s runRows) LastPart(ctx context.Context, run schema.RunID, kind schema.PartKind, of schema.PartKey) (schema.Part, error) {
	p, err := s.inner.LastPart(ctx, run, kind, of)
	if err == nil {
		err = s.box.openPart(run, kind, &p)
	}
	return p, err
}

func placeOfLetter(run schema.RunID) string { return "letter\x00" + run.String() }

// letter returns a dead letter as it is stored.
func (b *box) letter(ctx context.Context, l schema.DeadLetter) (schema.DeadLetter, error) {
	l.Last = *b.record(ctx, l.Tenant, l.Run, l.Attempts, &l.Last)
	l.Earlier = slices.Clone(l.Earlier)
	for i := range l.Earlier {
		l.Earlier[i].Record = b.record(ctx, l.Tenant, l.Run, l.Earlier[i].Number, l.Earlier[i].Record)
	}
	if len(l.Entry.Payload) == 0 || schema.IsSealed(l.Entry.Payload) {
		return l, nil
	}
	var err error
	l.Entry.Payload, err = b.keys.SealRow(l.Entry.Payload, placeOfLetter(l.Run))
	return l, err
}

// openLetter opens a dead letter in place. A payload that was not opened when the letter was
// written is still sealed for its entry.
func (b *box) openLetter(l *schema.DeadLetter) {
	b.openRecord(l.Run, l.Attempts, &l.Last)
	for i := range l.Earlier {
		b.openRecord(l.Run, l.Earlier[i].Number, l.Earlier[i].Record)
	}
	if !schema.IsSealed(l.Entry.Payload) {
		return
	}
	text, err := b.openRow(l.Entry.Payload, placeOfLetter(l.Run))
	if err != nil {
		text, err = b.openRow(l.Entry.Payload, placeOf(&l.Entry))
	}
	if err == nil {
		l.Entry.Payload = text
		return
	}
	l.Entry.Payload = nil
	if l.Fault == nil {
		l.Fault = fmt.Errorf("payload: %w", err)
	}
}

// PutDeadLetters implements schema.DeadLetterStore.
func (s runRows) PutDeadLetters(ctx context.Context, letters []schema.DeadLetter) error {
	stored := letters
	for i := range letters {
		if !s.box.seals(ctx, letters[i].Tenant) {
			continue
		}
		l, err := s.box.letter(ctx, letters[i])
		if err != nil {
			return err
		}
		if &stored[0] == &letters[0] {
			stored = slices.Clone(letters)
		}
		stored[i] = l
	}
	return s.inner.PutDeadLetters(ctx, stored)
}

// DeadLetter implements schema.DeadLetterStore.
func (s runRows) DeadLetter(ctx context.Context, tenant string, run schema.RunID) (schema.DeadLetter, error) {
	l, err := s.inner.DeadLetter(ctx, tenant, run)
	s.box.openLetter(&l)
	return l, err
}

// DeadLetters implements schema.DeadLetterStore.
func (s runRows) DeadLetters(ctx context.Context, tenant string, day int, before schema.RunID, limit int) ([]schema.DeadLetter, error) {
	letters, err := s.inner.DeadLetters(ctx, tenant, day, before, limit)
	for i := range letters {
		s.box.openLetter(&letters[i])
	}
	return letters, err
}
