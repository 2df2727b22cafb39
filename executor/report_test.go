package executor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// told returns the lines of a run's log, dropped ones as -n, and its last progress.
func (w *world) told(run schema.RunID) (lines []string, last *schema.RunProgress) {
	w.t.Helper()
	parts, _ := w.parts(run, schema.ReportPart)
	number := 0
	for _, p := range parts {
		if p.Number <= number {
			w.t.Errorf("report %d after %d", p.Number, number)
		}
		if number = p.Number; len(p.Data) > schema.PartSize {
			w.t.Errorf("report %d has %d bytes, want at most %d", p.Number, len(p.Data), schema.PartSize)
		}
		r, err := schema.DecodeReport(p.Data)
		if err != nil {
			w.t.Fatalf("report %d: %v", p.Number, err)
		}
		for _, l := range r.Lines {
			lines = append(lines, l.Text)
		}
		if r.Dropped > 0 {
			lines = append(lines, fmt.Sprint(-r.Dropped))
		}
		last = r.Progress
	}
	return lines, last
}

// inRun runs work as the callee of one run in a world, and returns the run when it has ended.
func (w *world) inRun(timeout time.Duration, work func(ctx context.Context, c target.Call) target.Result) schema.RunID {
	w.t.Helper()
	ended := make(chan struct{})
	w.answer(func(ctx context.Context, c target.Call) target.Result { defer close(ended); return work(ctx, c) })
	w.begin("x")
	e := w.entry(inAWhile(time.Second), func(s *schema.Spec) { s.Work.Timeout = schema.Duration(timeout) })
	w.publish(e, time.Now())
	<-ended
	time.Sleep(10 * time.Second)
	return e.ID
}

func TestWhatAWorkerTellsIsSeenWhileItRuns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		run := w.inRun(time.Hour, func(_ context.Context, c target.Call) target.Result {
			time.Sleep(100 * time.Millisecond) // what is told is written at whole seconds, and it begins at one
			c.Feedback.Log("one\ntwo\r\n")
			c.Feedback.Progress(1, 10, "begun")
			time.Sleep(1200 * time.Millisecond)
			if lines, p := w.told(c.Run); strings.Join(lines, " ") != "one two" || p == nil || p.Done != 1 || p.Total != 10 || p.Text != "begun" {
				t.Errorf("after 1.2 s: %q and %+v are held, want one, two and progress 1 of 10", lines, p)
			}
			c.Feedback.Progress(2, 10, "")
			c.Feedback.Progress(3, 10, "")
			time.Sleep(4 * time.Second)
			if _, p := w.told(c.Run); p.Done != 3 {
				t.Errorf("4 s later: %+v is held, want progress 3", p)
			}
			c.Feedback.Log("three")
			c.Feedback.Progress(10, 10, "")
			return target.Result{Outcome: schema.Succeeded}
		})
		lines, p := w.told(run)
		if strings.Join(lines, " ") != "one two three" || p.Done != 10 {
			t.Errorf("at the end: %q and %+v are held, want all", lines, p)
		}
		all := w.attempts(run)
		rec := all[len(all)-1].Record
		if rec.Lines != 3 || rec.LinesDropped != 0 || rec.Progress == nil || rec.Progress.Done != 10 {
			t.Errorf("record: %d lines, %d dropped, progress %+v; want 3, 0 and 10", rec.Lines, rec.LinesDropped, rec.Progress)
		}
	})
}

func TestReportsComeBeforeTheRecord(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.inRun(time.Minute, func(_ context.Context, c target.Call) target.Result {
			c.Feedback.Log("quick")
			return target.Result{Outcome: schema.Succeeded, Output: make([]byte, outputHead+1)}
		})
		w.want("a quick run that logs", "start 1, report, output, record 1 succeeded, notice, ack")
	})
}

func TestWhatIsTooMuchIsDropped(t *testing.T) {
	for name, c := range map[string]struct {
		work          func(c target.Call)
		kept, dropped int
	}{
		"too fast": {func(c target.Call) {
			time.Sleep(time.Millisecond) // not at the instant of a report
			for range 100 {
				c.Feedback.Log(strings.Repeat("x", 7900))
			}
		}, maxWaiting / (7900 + 45), 100 - maxWaiting/(7900+45)},
		"too many bytes": {func(c target.Call) {
			for range 40 {
				for range 4 {
					c.Feedback.Log(strings.Repeat("x", 7900))
				}
				time.Sleep(2 * time.Second)
			}
		}, maxLogBytes / (7900 + 45), 160 - maxLogBytes/(7900+45)},
		"too many lines": {func(c target.Call) {
			for range 11 {
				c.Feedback.Log(strings.Repeat("\n", 1000))
				time.Sleep(2 * time.Second)
			}
		}, maxLines, 1000},
		"lines too long":   {func(c target.Call) { c.Feedback.Log(strings.Repeat("é", 100_000)) }, 1, 0},
		"all escaped":      {func(c target.Call) { c.Feedback.Log(strings.Repeat(strings.Repeat("\x01", maxLine)+"\n", 3)) }, 3, 0},
		"no UTF-8":         {func(c target.Call) { c.Feedback.Log("a\xffb") }, 1, 0},
		"a text of no end": {func(c target.Call) { c.Feedback.Progress(1, 2, strings.Repeat("é", 100_000)) }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				run := w.inRun(time.Hour, func(_ context.Context, call target.Call) target.Result {
					c.work(call)
					return target.Result{Outcome: schema.Succeeded}
				})
				lines, _ := w.told(run)
				all := w.attempts(run)
				rec := all[len(all)-1].Record
				if rec.Lines != c.kept || rec.LinesDropped != c.dropped {
					t.Errorf("record: %d lines and %d dropped, want %d and %d", rec.Lines, rec.LinesDropped, c.kept, c.dropped)
				}
				kept, dropped := 0, 0
				for _, l := range lines {
					if n := 0; len(l) > 1 && l[0] == '-' {
						_, _ = fmt.Sscan(l, &n)
						dropped -= n
						continue
					}
					kept++
					if len(l) > maxLine+4 {
						t.Errorf("a line of %d bytes", len(l))
					}
				}
				if kept != c.kept || dropped != c.dropped {
					t.Errorf("the log has %d lines and says that %d were dropped, want %d and %d", kept, dropped, c.kept, c.dropped)
				}
			})
		})
	}
}

// A line that finds no room takes the rest of its text with it: while nothing is kept, nothing is
// looked at line by line.
func TestATextIsDroppedFromItsFirstLineThatFindsNoRoom(t *testing.T) {
	const fits = maxWaiting/(7900+45) - 1
	inWorld(t, func(t *testing.T, w *world) {
		run := w.inRun(time.Hour, func(_ context.Context, c target.Call) target.Result {
			time.Sleep(time.Millisecond) // not at the instant of a report
			long := strings.Repeat("x", 7900) + "\n"
			c.Feedback.Log(strings.Repeat(long, fits) + strings.Repeat(long, 10) + strings.Repeat("short\n", 1000))
			c.Feedback.Log("the next\n")
			return target.Result{Outcome: schema.Succeeded}
		})
		lines, _ := w.told(run)
		rec := w.only(run)
		if last := lines[len(lines)-1]; rec.Lines != fits+2 || rec.LinesDropped != 1009 || last != "the next" || lines[len(lines)-2] != "-1009" {
			t.Errorf("%d lines are kept and %d dropped, the last is %q after %q; want %d and 1009, the next after -1009", rec.Lines, rec.LinesDropped, last, lines[len(lines)-2], fits+2)
		}
	})
}

// BenchmarkLogOfAFlood is what a text of a million lines costs, of which hardly one is kept.
func BenchmarkLogOfAFlood(b *testing.B) {
	text := strings.Repeat("\n", 1<<20)
	r := &report{by: newReporter(nil, time.Now, nil, nil), writing: make(chan struct{}, 1)}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.log(text, time.Now())
	}
}

func TestReportsWaitForTheStore(t *testing.T) {
	for name, fault := range map[string]schematest.Fault{"refused": {Fail: true}, "unknown": {Lose: true}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				run := w.inRun(time.Hour, func(_ context.Context, c target.Call) target.Result {
					w.befall(func(_ context.Context, op string) schematest.Fault {
						if op == "PutPart" {
							return fault
						}
						return schematest.Fault{}
					})
					for i := range 20 {
						c.Feedback.Log(fmt.Sprint(i))
						c.Feedback.Progress(int64(i), 0, "")
						time.Sleep(700 * time.Millisecond)
					}
					w.befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
					time.Sleep(2 * time.Second)
					return target.Result{Outcome: schema.Succeeded}
				})
				var want []string
				for i := range 20 {
					want = append(want, fmt.Sprint(i))
				}
				if lines, p := w.told(run); strings.Join(lines, " ") != strings.Join(want, " ") || p.Done != 19 {
					t.Errorf("log after the store failed: %q, %+v; want every line once, and progress 19", lines, p)
				}
			})
		})
	}
}

func TestLinesThatComeDuringAWriteAreKept(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		run := w.inRun(time.Hour, func(_ context.Context, c target.Call) target.Result {
			w.befall(func(_ context.Context, op string) schematest.Fault {
				if op == "PutPart" {
					return schematest.Fault{Delay: 2 * time.Second}
				}
				return schematest.Fault{}
			})
			c.Feedback.Log("before")
			time.Sleep(2 * time.Second) // the write has begun, and goes on
			c.Feedback.Log("during")
			time.Sleep(20 * time.Second)
			return target.Result{Outcome: schema.Succeeded}
		})
		if lines, _ := w.told(run); strings.Join(lines, " ") != "before during" {
			t.Errorf("log: %q, want both lines, once", lines)
		}
	})
}

func TestReportsOfADeadStoreAreGivenUpAtTheEnd(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		run := w.inRun(time.Minute, func(_ context.Context, c target.Call) target.Result {
			w.breakDown("PutPart")
			c.Feedback.Log("lost")
			return target.Result{Outcome: schema.Succeeded}
		})
		if rec := w.only(run); rec.Outcome != schema.Succeeded || rec.Lines != 0 || rec.LinesDropped != 1 {
			t.Errorf("record: %s, %d lines, %d dropped; want a success with one line dropped", rec.Outcome, rec.Lines, rec.LinesDropped)
		}
	})
}

func TestProgressAloneIsWrittenSeldom(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		run := w.inRun(24*time.Hour, func(_ context.Context, c target.Call) target.Result {
			for i := range 4 * 3600 {
				c.Feedback.Progress(int64(i), 4*3600, "")
				time.Sleep(time.Second)
			}
			return target.Result{Outcome: schema.Succeeded}
		})
		parts, _ := w.parts(run, schema.ReportPart)
		if len(parts) < 100 || len(parts) > 450 {
			t.Errorf("a run of four hours that tells its progress every second has %d reports, want a few hundred", len(parts))
		}
	})
}

func TestNothingIsToldAfterTheEnd(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var tell target.Feedback
		run := w.inRun(time.Minute, func(_ context.Context, c target.Call) target.Result {
			tell = c.Feedback
			return target.Result{Outcome: schema.Succeeded}
		})
		tell.Log("late")
		tell.Progress(1, 1, "")
		time.Sleep(5 * time.Second)
		if parts, _ := w.parts(run, schema.ReportPart); len(parts) != 0 {
			t.Errorf("reports: %d, want none", len(parts))
		}
	})
}
