// Package logging is the handler between the program and the format of its log.
//
// It adds the trace id to every line that names a run, and bounds how many lines of one kind are
// written a second. It is the only place that does either: packages log what they know, under the
// keys of deploy/monitoring/LOGS.md.
//
// # Invariants
//
//  1. A line with the key "run" has the key "trace_id": the id of the run without dashes, which is also
//     the trace id that callees are told.
//  2. Of lines of one message, perSecond are written a second; how many are left out after that is
//     written exactly, within a second of the last, or when Flush is called. Lines of level debug are
//     never left out.
//  3. A line whose level is off costs what it costs without this package.
//
// If we crash, the count of the last second is lost.
package logging

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// perSecond is how many lines of one message are written a second.
	perSecond = 10
	// window is over which they are counted.
	window = time.Second
	// maxMessages bounds the messages that are counted apart; those beyond share one count. A
	// message is a fixed phrase, so there are some hundreds.
	maxMessages = 2000
)

// RunKey and TraceKey are the keys of a run and of its trace.
const (
	RunKey   = "run"
	TraceKey = "trace_id"
)

// LeftOut is the message of the line that says how many lines like "like" were left out: "count".
const LeftOut = "lines were left out"

// Handler adds trace ids to lines and samples storms. Its methods may be called from any goroutine.
type Handler struct {
	next    slog.Handler
	sampler *sampler
	traced  bool // the lines have a trace id already
}

var _ slog.Handler = (*Handler)(nil)

// New returns a handler that passes lines on to next.
func New(next slog.Handler) *Handler {
	return &Handler{next: next, sampler: &sampler{out: next, counts: make(map[string]*count)}}
}

// Flush writes how many lines were left out so far, of all messages.
func (h *Handler) Flush() { h.sampler.flush() }

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level > slog.LevelDebug && !h.sampler.take(r.Message, r.Level) {
		return nil
	}
	if !h.traced {
		trace := ""
		r.Attrs(func(a slog.Attr) bool {
			switch a.Key {
			case RunKey:
				trace = traceOf(a.Value)
			case TraceKey:
				trace = ""
				return false
			}
			return true
		})
		if trace != "" {
			r = r.Clone()
			r.AddAttrs(slog.String(TraceKey, trace))
		}
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	for _, a := range attrs {
		if a.Key != RunKey || with.traced {
			continue
		}
		if trace := traceOf(a.Value); trace != "" {
			attrs, with.traced = append(slices.Clone(attrs), slog.String(TraceKey, trace)), true
			break
		}
	}
	with.next = h.next.WithAttrs(attrs)
	return &with
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	with := *h
	with.next = h.next.WithGroup(name)
	return &with
}

// traceOf returns the trace id of a run, "" if v is no id.
func traceOf(v slog.Value) string {
	var text string
	switch v = v.Resolve(); v.Kind() {
	case slog.KindString:
		text = v.String()
	case slog.KindAny:
		id, ok := v.Any().(fmt.Stringer)
		if !ok {
			return ""
		}
		text = id.String()
	default:
		return ""
	}
	const length = 36
	if len(text) != length {
		return ""
	}
	for i, r := range text {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (r == '-') || !dash && !strings.ContainsRune("0123456789abcdef", r) {
			return ""
		}
	}
	return strings.ReplaceAll(text, "-", "")
}

// sampler counts lines by message.
type sampler struct {
	out slog.Handler // takes the lines that say how many were left out

	mu     sync.Mutex
	counts map[string]*count
	timer  *time.Timer // writes the counts of the last second; nil: nothing was left out
}

// count is how many lines of a message came in the window that began then.
type count struct {
	began   time.Time
	lines   int
	leftOut int
	level   slog.Level // the highest of those left out
}

// take reports whether a line of the message is written.
func (s *sampler) take(message string, level slog.Level) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts[message]
	if c == nil {
		if len(s.counts) >= maxMessages {
			message = ""
			c = s.counts[message]
		}
		if c == nil {
			c = &count{began: now}
			s.counts[message] = c
		}
	}
	if now.Sub(c.began) >= window {
		c.began, c.lines = now, 0
	}
	c.lines++
	if c.lines <= perSecond {
		return true
	}
	c.leftOut++
	c.level = max(c.level, level)
	if s.timer == nil {
		s.timer = time.AfterFunc(window, s.flush)
	}
	return false
}

// flush writes how many lines were left out, by message.
func (s *sampler) flush() {
	type line struct {
		message string
		count
	}
	var lines []line
	s.mu.Lock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	for message, c := range s.counts {
		if c.leftOut > 0 {
			lines = append(lines, line{message, *c})
			c.leftOut, c.level = 0, 0
		}
	}
	s.mu.Unlock()
	slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.message, b.message) })
	ctx := context.Background()
	for _, l := range lines {
		if !s.out.Enabled(ctx, l.level) {
			continue
		}
		r := slog.NewRecord(time.Now(), l.level, LeftOut, 0)
		r.AddAttrs(slog.String("like", l.message), slog.Int("count", l.leftOut))
		_ = s.out.Handle(ctx, r) // as slog.Logger does
	}
}
