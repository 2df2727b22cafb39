package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// execution is a row of attempts as an executor has it when it saves what the attempt put out.
func execution(run schema.RunID, number int, fence schema.Fence) *schema.Attempt {
	return &schema.Attempt{Run: run, Number: number, Fence: fence, Written: time.Now().UnixMicro(), Expires: time.Now().Add(time.Hour)}
}

// text returns all of an output.
func (w *world) text(o Output) string {
	w.T.Helper()
	var b strings.Builder
	for chunk, err := range o.Chunks {
		if err != nil {
			w.T.Fatalf("Chunks: %v", err)
		}
		b.Write(chunk)
	}
	return b.String()
}

func TestOutputOfARun(t *testing.T) {
	w := newWorld(t, schema.Settings{})
	id := w.submit(callTo(time.Time{}))
	put := func(number int, fence schema.Fence, rec schema.Record) {
		a := execution(id, number, fence)
		rec.Entry = id
		if rec.Finished.IsZero() {
			rec.Finished = time.Now().UTC()
		}
		a.Record = &rec
		if err := w.Counts.PutAttempts(t.Context(), []schema.Attempt{*a}); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("grün\n", 100_000) // eight parts
	first, second := execution(id, 1, 5), execution(id, 1, 9)
	for a, text := range map[*schema.Attempt]string{first: "of another execution" + long, second: long} {
		if held, err := w.SaveOutput(t.Context(), a, []byte(text)); err != nil || held != int64(len(text)) {
			t.Fatalf("SaveOutput = %d, %v; want %d", held, err, len(text))
		}
	}
	if o, err := w.Output(t.Context(), "t", id, 0); err != nil || w.text(o) != "" || o.Attempt != 0 {
		t.Errorf("Output before the first record = %+v, %v; want none", o, err)
	}
	put(1, 5, schema.Record{Outcome: schema.Failed, Output: "of another", OutputSize: 20})
	put(1, 9, schema.Record{Outcome: schema.Failed, Output: "grün", OutputSize: int64(len(long)), OutputCut: true})
	put(2, 12, schema.Record{Outcome: schema.Lost, Unstarted: true})
	put(3, 20, schema.Record{Outcome: schema.Succeeded, Output: "two"})
	put(3, 25, schema.Record{Outcome: schema.Failed, Output: "too late"})
	put(3, 28, schema.Record{Outcome: schema.Lost, Output: "before", Finished: time.Now().UTC().Add(-time.Hour)})
	put(4, 30, schema.Record{Outcome: schema.Lost, Output: "thought"})
	for name, c := range map[string]struct {
		attempt int
		want    Output
		text    string
	}{
		"the one that succeeded":      {0, Output{Attempt: 3, Size: 3}, "two"},
		"one begun since then":        {4, Output{Attempt: 4, Size: 7}, "thought"},
		"one that was executed twice": {1, Output{Attempt: 1, Size: int64(len(long)), Cut: true}, long},
		"one with three ends":         {3, Output{Attempt: 3, Size: 3}, "two"},
	} {
		got, err := w.Output(t.Context(), "t", id, c.attempt)
		if err != nil {
			t.Errorf("%s: Output = %v", name, err)
			continue
		}
		if text := w.text(got); text != c.text {
			t.Errorf("%s: the text has %d bytes, want %d", name, len(text), len(c.text))
		}
		if got.Chunks = nil; fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: Output = %+v, want %+v", name, got, c.want)
		}
	}
	for name, call := range map[string]func() (Output, error){
		"another tenant":           func() (Output, error) { return w.Output(t.Context(), "u", id, 0) },
		"no such attempt":          func() (Output, error) { return w.Output(t.Context(), "t", id, 5) },
		"a number that never went": func() (Output, error) { return w.Output(t.Context(), "t", id, 2) },
	} {
		if o, err := call(); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("%s: Output = %+v, %v; want ErrNotFound", name, o, err)
		}
	}
}

func TestAnAttemptThatNeverBeganIsNamed(t *testing.T) {
	w := newWorld(t, schema.Settings{})
	id := w.submit(callTo(time.Time{}))
	e, _ := w.Row(id)
	ask := func(attempt int) map[string]error {
		_, output := w.Output(t.Context(), "t", id, attempt)
		_, _, logs := w.Logs(t.Context(), "t", id, attempt, LogPosition{}, 10)
		return map[string]error{"Output": output, "Logs": logs}
	}
	want := func(attempt int, begun ...int) {
		t.Helper()
		for name, err := range ask(attempt) {
			var none *NoAttemptError
			if !errors.As(err, &none) || none.Number != attempt || none.Run != id || !slices.Equal(none.Begun, begun) || !errors.Is(err, schema.ErrNotFound) {
				t.Errorf("%s of attempt %d = %v; want a NoAttemptError, with %d begun", name, attempt, err, begun)
			}
		}
	}
	want(1)
	w.Recorded(e, 1, schema.Record{Outcome: schema.Failed})
	w.Recorded(e, 2, schema.Record{Outcome: schema.Succeeded})
	want(7, 1, 2)
}

func TestOutputOfWhichAPartIsMissing(t *testing.T) {
	w := newWorld(t, schema.Settings{})
	id := w.submit(callTo(time.Time{}))
	a := execution(id, 1, 5)
	if _, err := w.SaveOutput(t.Context(), a, bytes.Repeat([]byte("x"), 2*schema.PartSize)); err != nil {
		t.Fatal(err)
	}
	a.Record = &schema.Record{Entry: id, Outcome: schema.Succeeded, Finished: time.Now().UTC(), OutputSize: 2*schema.PartSize + 1}
	if err := w.Counts.PutAttempts(t.Context(), []schema.Attempt{*a}); err != nil {
		t.Fatal(err)
	}
	o, err := w.Output(t.Context(), "t", id, 1)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for chunk, e := range o.Chunks {
		n, err = n+len(chunk), e
	}
	if n != 2*schema.PartSize || !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("Chunks = %d bytes, then %v; want %d, then ErrNotFound", n, err, 2*schema.PartSize)
	}
}

func TestSaveOutputSaysHowMuchIsHeld(t *testing.T) {
	w := newWorld(t, schema.Settings{})
	id := w.submit(callTo(time.Time{}))
	output := bytes.Repeat([]byte("x"), 3*schema.PartSize+1)
	w.BefallFirst(1, "PutPart", schematest.Fault{Fail: true})
	if held, err := w.SaveOutput(t.Context(), execution(id, 1, 1), output); err == nil || held%schema.PartSize != 0 || held > 3*schema.PartSize {
		t.Errorf("SaveOutput of which a part fails = %d, %v; want what is held before it, and an error", held, err)
	}
	w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{Fail: true} })
	if held, err := w.SaveOutput(t.Context(), execution(id, 1, 1), output); held != 0 || !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("SaveOutput without a store = %d, %v; want 0 and ErrUnavailable", held, err)
	}
}

func TestProgressOfTheAttemptUnderWay(t *testing.T) {
	w := newWorld(t, schema.Settings{})
	id := w.submit(callTo(time.Time{}))
	e, _ := w.Row(id)
	live := w.Running(e, 1)
	if run, err := w.Run(t.Context(), "t", id); err != nil || run.State != schema.StateRunning || run.Progress != nil {
		t.Fatalf("Run = %+v, %v; want it running without progress", run, err)
	}
	for n := range 12 {
		r := schema.Report{Progress: &schema.RunProgress{Done: int64(n), Total: 12}}
		if err := w.SaveReport(t.Context(), &live, n+1, &r); err != nil {
			t.Fatal(err)
		}
	}
	if run, err := w.Run(t.Context(), "t", id); err != nil || run.Progress == nil || run.Progress.Done != 11 {
		t.Errorf("Run = %+v, %v; want progress 11 of 12", run, err)
	}
	w.Recorded(e, 1, schema.Record{Outcome: schema.Succeeded})
	if run, err := w.Run(t.Context(), "t", id); err != nil || run.Progress != nil {
		t.Errorf("Run that has ended = %+v, %v; want no progress of its own", run, err)
	}
}

// log returns the lines of a log from pos on, in pages of limit, as one text, and the position
// after them.
func (w *world) log(id schema.RunID, attempt int, pos LogPosition, limit int) (string, *LogPosition) {
	w.T.Helper()
	var words []string
	for range 100 {
		lines, next, err := w.Logs(w.T.Context(), "t", id, attempt, pos, limit)
		if err != nil {
			w.T.Fatalf("Logs: %v", err)
		}
		if len(lines) > limit {
			w.T.Fatalf("Logs at most %d = %d lines", limit, len(lines))
		}
		for _, l := range lines {
			word := fmt.Sprintf("%d:%s", l.Attempt, l.Text)
			if l.Dropped > 0 {
				word = fmt.Sprintf("%d-%d", l.Attempt, l.Dropped)
			}
			words = append(words, word)
		}
		if next == nil || len(lines) == 0 {
			return strings.Join(words, " "), next
		}
		pos = *next
	}
	w.T.Fatal("Logs: no end after 100 pages")
	panic("unreachable")
}

func TestLogs(t *testing.T) {
	for _, limit := range []int{1, 2, 3, 500} {
		w := newWorld(t, schema.Settings{})
		id := w.submit(callTo(time.Time{}))
		e, _ := w.Row(id)
		report := func(a *schema.Attempt, number, dropped int, lines ...string) {
			r := schema.Report{Dropped: dropped}
			for _, l := range lines {
				r.Lines = append(r.Lines, schema.Line{At: time.Now().UTC(), Text: l})
			}
			if err := w.SaveReport(t.Context(), a, number, &r); err != nil {
				t.Fatal(err)
			}
		}
		if got, next := w.log(id, 0, LogPosition{}, limit); got != "" || next == nil {
			t.Errorf("limit %d: log of a run that waits: %q, %v; want none, and a position", limit, got, next)
		}
		one := w.Running(e, 1)
		report(&one, 1, 0, "a", "b", "c")
		report(&one, 2, 0) // progress alone
		report(&one, 3, 7, "d")
		got, next := w.log(id, 0, LogPosition{}, limit)
		if got != "1:a 1:b 1:c 1:d 1-7" || next == nil {
			t.Fatalf("limit %d: log = %q, %v", limit, got, next)
		}
		if again, after := w.log(id, 0, *next, limit); again != "" || after == nil {
			t.Errorf("limit %d: log from its end = %q, %v; want none, and a position", limit, again, after)
		}
		for n := 4; n < 40; n++ {
			report(&one, n, 0, fmt.Sprint(n))
		}
		w.Recorded(e, 1, schema.Record{Outcome: schema.Failed})
		two := w.Running(e, 2)
		report(&two, 1, 0, "x")
		w.Recorded(e, 2, schema.Record{Outcome: schema.Succeeded})
		got, after := w.log(id, 0, *next, limit)
		if !strings.HasPrefix(got, "1:4 1:5 ") || !strings.HasSuffix(got, " 1:39 2:x") || after != nil {
			t.Errorf("limit %d: the rest of the log = %q, %v; want 1:4 … 1:39 2:x, and no position", limit, got, after)
		}
		if got, after := w.log(id, 2, LogPosition{}, limit); got != "2:x" || after != nil {
			t.Errorf("limit %d: log of attempt 2 = %q, %v", limit, got, after)
		}
		if got, after := w.log(id, 1, LogPosition{}, limit); !strings.HasSuffix(got, " 1:39") || after != nil {
			t.Errorf("limit %d: log of attempt 1 = %q, %v", limit, got, after)
		}
		for name, call := range map[string]func() error{
			"another tenant":  func() error { _, _, err := w.Logs(t.Context(), "u", id, 0, LogPosition{}, 9); return err },
			"no such attempt": func() error { _, _, err := w.Logs(t.Context(), "t", id, 3, LogPosition{}, 9); return err },
		} {
			if err := call(); !errors.Is(err, schema.ErrNotFound) {
				t.Errorf("%s: Logs = %v, want ErrNotFound", name, err)
			}
		}
	}
}
