package logging

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// page is a log that is written by several goroutines.
type page struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// lines returns what was written, decoded.
func (p *page) lines(t *testing.T) (all []map[string]any) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(p.text.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all = append(all, m)
	}
	return all
}

func logTo(p *page, level slog.Level) (*slog.Logger, *Handler) {
	h := New(slog.NewJSONHandler(p, &slog.HandlerOptions{Level: level}))
	return slog.New(h), h
}

// valuer is a value that is made when it is written.
type valuer struct{ id schema.RunID }

func (v valuer) LogValue() slog.Value { return slog.StringValue(v.id.String()) }

func TestEveryLineWithARunHasItsTrace(t *testing.T) {
	id := schema.MakeEntryID(time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC), 17, 42)
	want := strings.ReplaceAll(id.String(), "-", "")
	for name, row := range map[string]struct {
		say  func(l *slog.Logger)
		want any
	}{
		"an id":               {func(l *slog.Logger) { l.Info("x", "tenant", "a", "run", id, "err", "e") }, want},
		"a text":              {func(l *slog.Logger) { l.Error("x", "run", id.String()) }, want},
		"a value made later":  {func(l *slog.Logger) { l.Info("x", "run", valuer{id}) }, want},
		"an attribute":        {func(l *slog.Logger) { l.LogAttrs(context.Background(), slog.LevelWarn, "x", slog.Any("run", id)) }, want},
		"of the logger":       {func(l *slog.Logger) { l.With("part", "p", "run", id).Info("x", "attempt", 1) }, want},
		"of both":             {func(l *slog.Logger) { l.With("run", id).Info("x", "run", id) }, want},
		"debug":               {func(l *slog.Logger) { l.Debug("x", "run", id) }, want},
		"many keys":           {func(l *slog.Logger) { l.Info("x", "a", 1, "b", 2, "c", 3, "d", 4, "e", 5, "f", 6, "run", id, "g", 7) }, want},
		"one that it has":     {func(l *slog.Logger) { l.Info("x", "run", id, "trace_id", "mine") }, "mine"},
		"no run":              {func(l *slog.Logger) { l.Info("x", "entry", id) }, nil},
		"a run that is no id": {func(l *slog.Logger) { l.Info("x", "run", "none", "n", 1) }, nil},
		"a number":            {func(l *slog.Logger) { l.Info("x", "run", 7) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := &page{}
			l, _ := logTo(p, slog.LevelDebug)
			row.say(l)
			lines := p.lines(t)
			if len(lines) != 1 || lines[0]["trace_id"] != row.want {
				t.Errorf("lines = %v, want one with trace_id %v", lines, row.want)
			}
			if n := strings.Count(p.text.String(), `"trace_id"`); row.want != nil && n != 1 {
				t.Errorf("%d trace ids in %s", n, p.text.String())
			}
		})
	}
}

// Of a storm few lines are written, and how many were left out is exact.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const storm = 10_000
		p := &page{}
		l, _ := logTo(p, slog.LevelInfo)
		for i := range storm {
			l.Warn("a storm", "i", i)
			if i%100 == 0 {
				l.Info("beside it") // 100 lines in one instant: a storm, too
			}
		}
		l.Error("alone")
		time.Sleep(window + time.Millisecond)
		synctest.Wait()
		written, left := make(map[string]int), make(map[string]int)
		for _, line := range p.lines(t) {
			if line["msg"] == LeftOut {
				left[line["like"].(string)] += int(line["count"].(float64))
				if line["like"] == "a storm" && line["level"] != "WARN" {
					t.Errorf("the count has level %v, want that of the lines", line["level"])
				}
				continue
			}
			written[line["msg"].(string)]++
		}
		for message, all := range map[string]int{"a storm": storm, "beside it": storm / 100, "alone": 1} {
			if want := min(all, perSecond); written[message] != want || written[message]+left[message] != all {
				t.Errorf("%s: %d lines and %d left out, want %d and all %d", message, written[message], left[message], want, all)
			}
		}
		if n := len(p.lines(t)); n != 2*perSecond+1+2 {
			t.Errorf("%d lines, want %d", n, 2*perSecond+3)
		}
		// the next second begins anew
		l.Warn("a storm")
		if lines := p.lines(t); lines[len(lines)-1]["msg"] != "a storm" {
			t.Errorf("the last line is %v, want that of the next second", lines[len(lines)-1])
		}
	})
}

// A storm of hours has perSecond lines and one count a second; of many goroutines none is lost.
func TestLongStormOfManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seconds, each, by = 20, 50, 8
		p := &page{}
		l, h := logTo(p, slog.LevelInfo)
		var all sync.WaitGroup
		for g := range by {
			all.Go(func() {
				for range seconds * each {
					l.With("by", g).Error("a long storm")
					time.Sleep(window / each)
				}
			})
		}
		all.Wait()
		h.Flush()
		written, left := 0, 0
		for _, line := range p.lines(t) {
			if line["msg"] == LeftOut {
				left += int(line["count"].(float64))
				continue
			}
			written++
		}
		if written+left != seconds*each*by || written > (seconds+1)*perSecond {
			t.Errorf("%d lines and %d left out, want %d together, at most %d written", written, left, seconds*each*by, (seconds+1)*perSecond)
		}
		if n := len(p.lines(t)) - written; n > seconds+2 {
			t.Errorf("%d counts in %d seconds", n, seconds)
		}
	})
}

// Debugging is not sampled, and messages without end take no memory without end.
func TestBoundsOfTheSampler(t *testing.T) {
	p := &page{}
	l, h := logTo(p, slog.LevelDebug)
	for range 50 {
		l.Debug("each is wanted")
	}
	if n := len(p.lines(t)); n != 50 {
		t.Errorf("%d lines of debugging, want 50", n)
	}
	for i := range 3 * maxMessages { // as a library's, which are no fixed phrases
		if err := h.Handle(t.Context(), slog.NewRecord(time.Now(), slog.LevelInfo, fmt.Sprintf("message %d", i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(h.sampler.counts); n > maxMessages+1 {
		t.Errorf("%d messages are counted apart, want at most %d", n, maxMessages+1)
	}
	h.Flush()
	if strings.Contains(p.text.String(), `"like":"message `) {
		t.Error("a message that came once has a count")
	}
}

// A line that is off costs nothing, and one that is sampled little.
func TestAllocations(t *testing.T) {
	id := schema.MakeEntryID(time.Now(), 1, 2)
	plain := slog.New(slog.NewJSONHandler(&page{}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	handled := slog.New(New(slog.NewJSONHandler(&page{}, &slog.HandlerOptions{Level: slog.LevelWarn})))
	ctx := context.Background()
	off := func(l *slog.Logger) func() {
		return func() { l.LogAttrs(ctx, slog.LevelInfo, "off", slog.String("run", "x"), slog.Int("n", 1)) }
	}
	boxed := func(l *slog.Logger) func() { return func() { l.Info("off", "run", id, "n", 1) } }
	for name, pair := range map[string][2]func(){"attributes": {off(plain), off(handled)}, "any": {boxed(plain), boxed(handled)}} {
		if was, is := testing.AllocsPerRun(100, pair[0]), testing.AllocsPerRun(100, pair[1]); is > was {
			t.Errorf("%s: a line that is off allocates %v times, %v without the handler", name, is, was)
		}
	}
}
