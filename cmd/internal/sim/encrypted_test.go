package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/schema"
)

// clearLine finds payloads and outputs of the jobs of a scenario, with the line of the job; also
// within other JSON.
var clearLine = regexp.MustCompile(`\{\\?"line\\?":(\d+)\}|job (\d+), attempt \d+ under fence`)

// clearLines adds the lines of the jobs of which a text holds a payload or an output.
func clearLines(text string, into map[int]bool) {
	for _, found := range clearLine.FindAllStringSubmatch(text, -1) {
		line, err := strconv.Atoi(found[1] + found[2]) // one of them is empty
		if err != nil {
			panic(err) // it is made of digits
		}
		into[line] = true
	}
}

// clearMarks are found in rows where something else than the payload or output of a job is clear:
// payloads that limits count by, and errors of callees.
var clearMarks = []string{`"customer`, errRefused.Error()}

// overhear notes the job of an entry that is sent with a clear payload.
func (c *Cluster) overhear(e *schema.Entry) {
	if !c.states || len(e.Payload) == 0 || schema.IsSealed(e.Payload) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clearLines(string(e.Payload), c.overheard)
}

// hearing overhears hints.
type hearing struct {
	*inproc.Conn
	c *Cluster
}

// Near implements schema.Hints.
func (h hearing) Near(shard schema.Shard, entries []schema.Entry) {
	for i := range entries {
		h.c.overhear(&entries[i])
	}
	h.Conn.Near(shard, entries)
}

// encryptLater has the tenant ask for encryption in the middle, whatever goes wrong then.
func (w *world) encryptLater(ctx context.Context, wg *sync.WaitGroup) {
	if !w.s.EncryptedLater {
		return
	}
	wg.Go(func() {
		time.Sleep(w.s.Span / 2)
		if err := w.putTenant(ctx, schema.Tenant{Name: tenant, EncryptPayloads: true}); err != nil {
			w.c.fault("encryption could not be asked for: %v", err)
			return
		}
		w.sealsFrom = time.Now().Add(tenantKnown)
	})
}

// judgeEncrypted judges that nothing of jobs that were asked for while their tenant wanted it
// encrypted is clear, in any row or message. That callees got it clear, the checker judges.
func (w *world) judgeEncrypted(ctx context.Context) error {
	if !w.s.Encrypted || w.sealsFrom.IsZero() {
		return nil
	}
	rows, err := w.c.store.Rows(ctx)
	if err != nil {
		return err
	}
	inRows := make(map[int]bool)
	for key, row := range rows {
		if bytes.Contains([]byte(row), sealedHead) {
			w.out.SealedRows++
		}
		lines := make(map[int]bool)
		clearLines(key+row, lines)
		w.notClear(fmt.Sprintf("row %.200q", key), lines)
		maps.Copy(inRows, lines)
		for _, mark := range clearMarks {
			if !w.s.EncryptedLater && strings.Contains(row, mark) {
				w.c.fault("%s is clear in the row %.200q: %.400q", mark, key, row)
			}
		}
	}
	w.out.ClearRows = len(inRows)
	if err := w.judgeOpened(ctx); err != nil {
		return err
	}
	w.c.mu.Lock()
	said := maps.Clone(w.c.overheard)
	w.c.mu.Unlock()
	w.notClear("a message", said)
	return nil
}

// judgeOpened judges that no attempt of a job ended since something could not be opened.
func (w *world) judgeOpened(ctx context.Context) error {
	reader, err := w.reader(ctx)
	if err != nil {
		return err
	}
	for line, id := range w.ids {
		run, err := reader.Run(ctx, w.tenantOf(line), id)
		if errors.Is(err, schema.ErrNotFound) {
			continue // others say that it was lost
		}
		if err != nil {
			return fmt.Errorf("the run of job %d: %w", line, err)
		}
		for i := range run.Attempts {
			if a := &run.Attempts[i]; a.Record != nil && strings.Contains(a.Record.Error, "cannot be opened") {
				w.c.fault("attempt %d of run %s, of job %d: %s", a.Number, id, line, a.Record.Error)
			}
		}
	}
	return nil
}

// sealedHead is what begins all that is sealed.
var sealedHead = schema.Sealed{}.Append(nil)[:4]

// notClear judges that the jobs of these lines, of which something is clear, were asked for before
// it had to be sealed.
func (w *world) notClear(where string, lines map[int]bool) {
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		if at := w.since[line]; !at.Before(w.sealsFrom) {
			w.c.fault("job %d, asked for %v after everything had to be encrypted, is clear in %s", line, at.Sub(w.sealsFrom), where)
		}
	}
}
