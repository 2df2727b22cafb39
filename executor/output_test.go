package executor

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/executor/target"
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
		res     target.Result
		outcome schema.Outcome
		head    string // of the record; "…": outputHead bytes
		parts   string // what lies in parts
		cut     bool
		binary  bool
	}{
		"none":                       {target.Result{Outcome: schema.Succeeded}, schema.Succeeded, "", "", false, false},
		"short":                      {target.Result{Outcome: schema.Succeeded, Output: []byte("grün")}, schema.Succeeded, "grün", "", false, false},
		"short, of more":             {target.Result{Outcome: schema.Succeeded, Output: []byte("a"), OutputCut: true}, schema.Succeeded, "a", "", true, false},
		"exactly the head":           {target.Result{Outcome: schema.Succeeded, Output: bytes.Repeat([]byte("a"), outputHead)}, schema.Succeeded, "…", "", false, false},
		"a byte more":                {target.Result{Outcome: schema.Succeeded, Output: bytes.Repeat([]byte("a"), outputHead+1)}, schema.Succeeded, "…", strings.Repeat("a", outputHead+1), false, false},
		"of a failure":               {target.Result{Outcome: schema.Failed, Final: true, Output: bytes.Repeat([]byte("a"), 200_000)}, schema.Failed, "…", strings.Repeat("a", 200_000), false, false},
		"more than is kept":          {target.Result{Outcome: schema.Succeeded, Output: []byte(umlauts)}, schema.Succeeded, "", umlauts[:1<<20], true, false},
		"no UTF-8":                   {target.Result{Outcome: schema.Succeeded, Output: []byte("a\xffb")}, schema.Succeeded, "ab", "a\xffb", false, true},
		"cut within a character":     {target.Result{Outcome: schema.Succeeded, Output: []byte("gr\xc3"), OutputCut: true}, schema.Succeeded, "gr", "gr", true, false},
		"whole, half a character":    {target.Result{Outcome: schema.Succeeded, Output: []byte("gr\xc3")}, schema.Succeeded, "gr", "gr\xc3", false, true},
		"zeros, which are UTF-8 too": {target.Result{Outcome: schema.Succeeded, Output: make([]byte, 70_000)}, schema.Succeeded, "", string(make([]byte, 70_000)), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.answer(func(context.Context, target.Call) target.Result { return c.res })
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
		w.answer(func(context.Context, target.Call) target.Result {
			return target.Result{Outcome: schema.Succeeded, Output: make([]byte, schema.PartSize+1)}
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
				w.answer(func(context.Context, target.Call) target.Result {
					return target.Result{Outcome: schema.Succeeded, Output: bytes.Repeat([]byte("a"), 100_000)}
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
		const free, step = 64 << 10, 64 << 10 // bytes that an output has without a grant, and of one step of it
		budget := target.NewByteBudget(4 * step)
		w.answer(func(_ context.Context, c target.Call) target.Result {
			res := target.Result{Outcome: schema.Succeeded, Output: make([]byte, free+2*step), Memory: budget.Grant(c.Tenant)}
			if keep := res.Memory.Fit(len(res.Output)); keep < len(res.Output) {
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
			if left, tenants := budget.Use(); left != 4*step || tenants != 0 {
				t.Errorf("budget after output %d: %d left, held by %d tenants; want %d, and none", i+1, left, tenants, 4*step)
			}
		}
	})
}
