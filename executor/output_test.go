package executor

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// parts returns what the store holds of a run in parts of a kind, and joined.
func (w *world) parts(run schema.RunID, kind schema.PartKind) ([]schema.Part, []byte) {
	w.t.Helper()
	parts, err := w.inner.Parts(context.Background(), run, kind, schema.PartKey{}, 1000)
	if err != nil {
		w.t.Fatalf("parts: %v", err)
	}
	var all []byte
	for _, p := range parts {
		all = append(all, p.Data...)
	}
	return parts, all
}

// record returns the record of the only attempt of a run.
func (w *world) only(run schema.RunID) *schema.Record {
	w.t.Helper()
	all := w.attempts(run)
	if len(all) != 1 || all[0].Record == nil {
		w.t.Fatalf("attempts of %s: %+v, want one with a record", run, all)
	}
	return all[0].Record
}

func TestOutputsAreKept(t *testing.T) {
	umlauts := strings.Repeat("grün ", 1<<20/6+1) // a little more than 1 MiB
	for name, c := range map[string]struct {
		res     Result
		outcome schema.Outcome
		head    string // of the record; "…": outputHead bytes
		parts   string // what lies in parts
		cut     bool
		binary  bool
	}{
		"none":                       {Result{Outcome: schema.Succeeded}, schema.Succeeded, "", "", false, false},
		"short":                      {Result{Outcome: schema.Succeeded, Output: []byte("grün")}, schema.Succeeded, "grün", "", false, false},
		"short, of more":             {Result{Outcome: schema.Succeeded, Output: []byte("a"), OutputCut: true}, schema.Succeeded, "a", "", true, false},
		"exactly the head":           {Result{Outcome: schema.Succeeded, Output: bytes.Repeat([]byte("a"), outputHead)}, schema.Succeeded, "…", "", false, false},
		"a byte more":                {Result{Outcome: schema.Succeeded, Output: bytes.Repeat([]byte("a"), outputHead+1)}, schema.Succeeded, "…", strings.Repeat("a", outputHead+1), false, false},
		"of a failure":               {Result{Outcome: schema.Failed, Final: true, Output: bytes.Repeat([]byte("a"), 200_000)}, schema.Failed, "…", strings.Repeat("a", 200_000), false, false},
		"more than is kept":          {Result{Outcome: schema.Succeeded, Output: []byte(umlauts)}, schema.Succeeded, "", umlauts[:1<<20], true, false},
		"no UTF-8":                   {Result{Outcome: schema.Succeeded, Output: []byte("a\xffb")}, schema.Succeeded, "ab", "a\xffb", false, true},
		"cut within a character":     {Result{Outcome: schema.Succeeded, Output: []byte("gr\xc3"), OutputCut: true}, schema.Succeeded, "gr", "gr", true, false},
		"whole, half a character":    {Result{Outcome: schema.Succeeded, Output: []byte("gr\xc3")}, schema.Succeeded, "gr", "gr\xc3", false, true},
		"zeros, which are UTF-8 too": {Result{Outcome: schema.Succeeded, Output: make([]byte, 70_000)}, schema.Succeeded, "", string(make([]byte, 70_000)), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.answer(func(context.Context, Call) Result { return c.res })
				w.begin("x")
				e := w.entry(inAWhile(time.Second))
				w.publish(e, time.Now())
				time.Sleep(3 * time.Second)
				rec := w.only(e.ID)
				parts, got := w.parts(e.ID, schema.OutputPart)
				if rec.Outcome != c.outcome || string(got) != c.parts || rec.OutputSize != int64(len(c.parts)) || rec.OutputCut != c.cut || rec.OutputBinary != c.binary {
					t.Errorf("record: %s, %d bytes in parts of %d said, cut %t, binary %t; want %s, %d, %t, %t", rec.Outcome, len(got), rec.OutputSize, rec.OutputCut, rec.OutputBinary, c.outcome, len(c.parts), c.cut, c.binary)
				}
				if want := (len(c.parts) + schema.PartSize - 1) / schema.PartSize; len(parts) != want {
					t.Errorf("parts: got %d, want %d", len(parts), want)
				}
				switch {
				case c.head == "…" && len(rec.Output) != outputHead, c.head != "…" && c.head != "" && rec.Output != c.head, !strings.HasPrefix(string(c.res.Output), rec.Output) && c.head != "ab":
					t.Errorf("head of the output: got %d bytes %.20q, want %.20q", len(rec.Output), rec.Output, c.head)
				}
			})
		})
	}
}

func TestOutputComesBeforeItsRecord(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.answer(func(context.Context, Call) Result {
			return Result{Outcome: schema.Succeeded, Output: make([]byte, schema.PartSize+1)}
		})
		w.begin("x")
		e := w.entry(inAWhile(time.Second))
		w.publish(e, time.Now())
		time.Sleep(3 * time.Second)
		w.want("a long output", "start 1, output, output, record 1 succeeded, notice, ack")
	})
}

func TestOutputThatCannotBeWrittenLosesNoOutcome(t *testing.T) {
	for name, fault := range map[string]schematest.Fault{"refused": {Fail: true}, "unknown": {Lose: true}, "slow": {Delay: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.answer(func(context.Context, Call) Result {
					return Result{Outcome: schema.Succeeded, Output: bytes.Repeat([]byte("a"), 100_000)}
				})
				w.begin("x")
				w.befall(func(_ context.Context, op string) schematest.Fault {
					if op == "PutPart" {
						return fault
					}
					return schematest.Fault{}
				})
				e := w.entry(inAWhile(time.Second))
				w.publish(e, time.Now())
				time.Sleep(10 * time.Second)
				synctest.Wait()
				rec := w.only(e.ID)
				if rec.Outcome != schema.Succeeded || len(rec.Output) != outputHead || rec.OutputSize != 0 || !rec.OutputCut {
					t.Errorf("record: %s with %d bytes, %d in parts, cut %t; want a success with the head, and it said that there was more", rec.Outcome, len(rec.Output), rec.OutputSize, rec.OutputCut)
				}
				if n := w.open(); n != 0 {
					t.Errorf("messages left: %d, want 0", n)
				}
			})
		})
	}
}

func TestRoomIsGivenBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		room := NewByteBudget(4 * roomStep)
		w.answer(func(_ context.Context, c Call) Result {
			res := Result{Outcome: schema.Succeeded, Output: make([]byte, freeOutput+2*roomStep), room: room.of(c.Tenant)}
			if keep := res.room.fit(len(res.Output)); keep < len(res.Output) {
				t.Errorf("room for %d bytes of one output at a time, want all %d", keep, len(res.Output))
			}
			return res
		})
		w.begin("x")
		for i := range 3 {
			e := w.entry(inAWhile(time.Second))
			w.publish(e, time.Now())
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if room.left != 4*roomStep || len(room.held) != 0 {
				t.Errorf("room after output %d: %d left, and held %v; want %d, and nothing", i+1, room.left, room.held, 4*roomStep)
			}
		}
	})
}

func TestATenantLeavesRoomForOthers(t *testing.T) {
	output := make([]byte, freeOutput+2*roomStep-1)
	t.Run("http", func(t *testing.T) {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(output) })
		h, call := newHTTP(t, HTTPConfig{}), callTo(s.URL)
		leavesRoom(t, func(room *ByteBudget, tenant string) Result {
			h.room, call.Tenant = room, tenant
			return h.Run(t.Context(), call)
		})
	})
	t.Run("nats", func(t *testing.T) {
		n, call := newNATS(func(_ context.Context, _ string, _ map[string]string, _ []byte, hear func(queue.Reply) bool) error {
			hear(queue.Reply{Body: output})
			return nil
		}), natsCall()
		leavesRoom(t, func(room *ByteBudget, tenant string) Result {
			n.room, call.Tenant = room, tenant
			return n.Run(t.Context(), call)
		})
	})
}

// leavesRoom checks that beside a tenant that keeps all it can get another finds room. run has a target take in an output of 64 KiB and two steps, less a byte.
func leavesRoom(t *testing.T, run func(room *ByteBudget, tenant string) Result) {
	t.Helper()
	const steps = 8
	room := NewByteBudget(steps * roomStep)
	for range 2 { // the second time with all that was given back
		var all []Result
		for _, c := range []struct {
			tenant      string
			whole, left int // outputs of four, and steps after them
		}{{"greedy", 2, 4}, {"newcomer", 1, 2}} {
			whole := 0
			for range 4 {
				res := run(room, c.tenant)
				if all = append(all, res); res.Outcome == schema.Succeeded && !res.OutputCut && len(res.Output) == freeOutput+2*roomStep-1 {
					whole++
				}
			}
			if whole != c.whole || room.left != c.left*roomStep {
				t.Errorf("four outputs of %s: %d are whole, and %d bytes of room left; want %d, %d", c.tenant, whole, room.left, c.whole, c.left*roomStep)
			}
		}
		for _, res := range all {
			res.room.give()
		}
		if room.left != steps*roomStep || len(room.held) != 0 {
			t.Errorf("all given back: %d left, and held %v; want %d, and nothing", room.left, room.held, steps*roomStep)
		}
	}
}

// TestAHeadHoldsNoMore: the header of a worker's error may be as long as a message, and its head stays in memory until the record is written.
func TestAHeadHoldsNoMore(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	var got string
	if allocs := testing.AllocsPerRun(10, func() { got = head(long, errorHead) }); allocs != 1 || got != long[:errorHead] {
		t.Errorf("head: %d bytes with %v allocations, want %d that are a copy", len(got), allocs, errorHead)
	}
	if allocs := testing.AllocsPerRun(10, func() { got = head(long, len(long)) }); allocs != 0 || got != long {
		t.Errorf("head of what is short enough: %d bytes with %v allocations, want the text itself", len(got), allocs)
	}
}
