package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
)

const (
	// maxFruitlessTries bounds the tries of a block in a row that get no line answered, on all
	// nodes together.
	maxFruitlessTries = 8
	// maxPause bounds the wait between two tries, also one that Retry-After asks for.
	maxPause = 10 * time.Second
	// silenceLimit is how long a node may be silent. The server answers a chunk within a minute.
	silenceLimit = 75 * time.Second
	// saveEvery is how often answers are written to the state while a block is under way.
	saveEvery = time.Second
	// lastAnswersLimit bounds the wait for answers when the import is told to stop.
	lastAnswersLimit = 15 * time.Second
)

// sender sends blocks and reads the answers. Its methods may be called from any goroutine.
type sender struct {
	file         string
	nodes        []*httpapi.Client // one for each node; they retry nothing
	options      httpapi.ImportOptions
	resend       bool // send again what may be created already
	state        *importState
	failed       *failedLines
	progress     *progress
	pause        func(ctx context.Context, d time.Duration) // between tries
	silenceLimit time.Duration                              // how long a node may be silent
	unsettled    atomic.Int64                               // lines of blocks that ended without a result

	stopping context.Context         // ends when nothing more may be sent
	abort    context.CancelCauseFunc // of stopping
	sending  context.Context         // ends when answers are not awaited any more
}

// send sends a block until every line is settled or further tries make no sense. worker spreads the
// blocks over nodes.
func (s *sender) send(worker int, b *block) {
	fruitless := 0
	for node := worker; s.stopping.Err() == nil; node++ {
		before := countPending(b)
		err := s.try(s.nodes[node%len(s.nodes)], b)
		left := countPending(b)
		switch {
		case isFinal(err):
			s.abort(err)
		case left == 0:
			return
		case left < before:
			fruitless = 0
		default:
			fruitless++
		}
		if fruitless >= maxFruitlessTries {
			s.giveUp(b, err)
			break
		}
		if fruitless%len(s.nodes) == 0 { // else try the next node at once
			s.pause(s.stopping, pauseAfter(err, fruitless))
		}
	}
	s.unsettled.Add(int64(countPending(b)))
}

// countPending counts the lines of a block that are still to send.
func countPending(b *block) (n int) {
	for i := range b.lines {
		if b.lines[i].state == pending {
			n++
		}
	}
	return n
}

// isFinal reports whether no further try can succeed, for example because the API key is wrong.
func isFinal(err error) bool {
	var p *httpapi.Problem
	var state *stateError
	if errors.As(err, &state) {
		return true
	}
	return refused(err) && errors.As(err, &p) && p.Status/100 == 4 && p.Status != http.StatusTooManyRequests && p.Status != http.StatusRequestTimeout
}

// refused reports whether a node refused the import as a whole, and so wrote nothing.
func refused(err error) bool {
	var p *httpapi.Problem
	return !errors.Is(err, httpapi.ErrImportCut) && errors.As(err, &p) && (p.Status/100 == 4 || nothingWritten(p))
}

// nothingWritten reports whether a problem of status 503 says that nothing was written.
func nothingWritten(p *httpapi.Problem) bool {
	switch p.Kind() {
	case "not-ready", "not-served", "not-everywhere":
		return true
	}
	return false
}

// stateError says that results cannot be saved, so nothing more may be sent.
type stateError struct{ error }

func (e *stateError) Unwrap() error { return e.error }

// pauseAfter returns how long to wait before the next try: what Retry-After asks for, else
//
//	0.2 s × 2^fruitless, half of it random
//
// and at most maxPause.
func pauseAfter(err error, fruitless int) time.Duration {
	var p *httpapi.Problem
	if errors.As(err, &p) && p.RetryAfter > 0 {
		return min(p.RetryAfter, maxPause)
	}
	d := 200 * time.Millisecond << min(fruitless, 10)
	return min(d/2+rand.N(d/2), maxPause) // #nosec G404 -- only spreads load
}

// giveUp ends a block after too many tries. A line that the API refused by itself has failed; any
// other pending line ends the import.
func (s *sender) giveUp(b *block, err error) {
	left := 0
	var noted error
	for i := range b.lines {
		l := &b.lines[i]
		if l.state != pending {
			continue
		}
		if p := l.lastRefusal; p != nil && (p.Kind() == "minute-full" || p.Status == http.StatusInternalServerError) {
			noted = errors.Join(noted, s.fail(l, p))
			continue
		}
		left++
	}
	if noted = errors.Join(noted, s.saveAnswers(b)); noted != nil {
		s.abort(noted)
		return
	}
	if left > 0 {
		if err == nil {
			err = errors.New("the API cannot promise them now")
		}
		s.abort(fmt.Errorf("%d lines were not taken in %d tries: %w", left, maxFruitlessTries, err))
	}
}

// try sends the pending lines of a block to a node once.
func (s *sender) try(client *httpapi.Client, b *block) error {
	var lines []*line
	for i := range b.lines {
		if l := &b.lines[i]; l.state == pending {
			lines = append(lines, l)
		}
	}
	isPending := func(l *line) bool { return l.state == pending }
	if err := s.state.save(record{Sent: spans(b.lines, isPending)}); err != nil {
		return &stateError{err}
	}
	ctx, cancel := context.WithCancelCause(s.sending)
	defer cancel(nil)
	silence := time.AfterFunc(s.silenceLimit, func() { cancel(fmt.Errorf("no answer for %v", s.silenceLimit)) })
	defer silence.Stop()
	body := &lineReader{lines: lines, stop: s.stopping, moved: func() { silence.Reset(s.silenceLimit) }}
	heard := make([]bool, len(lines))
	noted := time.Now()
	_, err := client.Import(ctx, body, s.options, func(r httpapi.ImportResult) error {
		silence.Reset(s.silenceLimit)
		i := r.Line - 1
		if i < 0 || i >= int64(len(lines)) || heard[i] {
			return fmt.Errorf("the answer names line %d, which was not asked", r.Line)
		}
		heard[i] = true
		if err := s.takeAnswer(lines[i], r); err != nil {
			return &stateError{err}
		}
		if now := time.Now(); now.Sub(noted) > saveEvery {
			noted = now
			if err := s.saveAnswers(b); err != nil {
				return &stateError{err}
			}
		}
		return nil
	})
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = fmt.Errorf("%w: %w", httpapi.ErrImportCut, cause)
	}
	taken := body.withdraw()
	var unsent lineSet
	for i, l := range lines {
		if i < taken && !heard[i] && !refused(err) {
			s.markUncertain(l)
		}
		if l.state == pending && !l.uncertain {
			unsent.add(span{l.number, l.number})
		}
	}
	if serr := errors.Join(s.state.save(record{Unsent: unsent}), s.saveAnswers(b)); serr != nil {
		return &stateError{serr}
	}
	return err
}

// takeAnswer settles a line by its answer.
func (s *sender) takeAnswer(l *line, r httpapi.ImportResult) error {
	if l.lastRefusal = r.Error; l.lastRefusal == nil {
		l.lastRefusal = &httpapi.Problem{Title: http.StatusText(r.Status), Status: r.Status}
	}
	switch {
	case r.Status == http.StatusCreated:
		l.state, l.created = answered, true
		s.progress.count(tally{Created: 1})
	case r.Status == http.StatusOK:
		l.state = answered
		s.progress.count(tally{Existing: 1})
	case r.Status == http.StatusTooManyRequests, nothingWritten(l.lastRefusal):
	case r.Status >= 500:
		s.markUncertain(l)
	default:
		return s.fail(l, l.lastRefusal)
	}
	return nil
}

// markUncertain notes that a line may be created or not. With a key it is sent again; without one
// it is unknown.
func (s *sender) markUncertain(l *line) {
	l.uncertain = true
	if !s.resend && !s.options.ValidateOnly && !l.keyed() {
		l.state = unknown
		s.progress.countUnknown()
	}
}

// fail records that a line failed.
func (s *sender) fail(l *line, p *httpapi.Problem) error {
	l.state, l.failed = answered, true
	s.progress.count(tally{Failed: 1})
	return s.failed.add(s.file, l.number, l.text, p)
}

// saveAnswers writes the new answers to the state. It writes failed lines to their file first: if
// the process ends in between, the next import sends them again and records them again.
func (s *sender) saveAnswers(b *block) error {
	if s.state == nil {
		return nil
	}
	if err := s.failed.flush(); err != nil {
		return err
	}
	var rec record
	rec.Answered = spans(b.lines, func(l *line) bool { return l.state == answered && !l.saved })
	for i := range b.lines {
		l := &b.lines[i]
		if l.state != answered || l.saved {
			continue
		}
		l.saved = true
		switch {
		case l.failed:
			rec.Failed++
		case l.created:
			rec.Created++
		default:
			rec.Existing++
		}
	}
	return s.state.save(rec)
}

// lineReader is the body of one try: the lines, each with a newline. When stop ends, it ends before
// the next line.
type lineReader struct {
	lines []*line
	stop  context.Context
	moved func()

	mu        sync.Mutex // guards what follows; a transport may read on after its request failed
	taken     int        // lines of which at least one byte was read
	offset    int        // in the last of them; its length + 1 = after its newline
	withdrawn bool
}

func (r *lineReader) Read(p []byte) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.withdrawn {
		return 0, errors.New("the try is over")
	}
	defer r.moved()
	for n < len(p) {
		if r.taken == 0 || r.offset > len(r.lines[r.taken-1].text) {
			if r.taken == len(r.lines) || r.stop.Err() != nil {
				if n == 0 {
					err = io.EOF
				}
				return n, err
			}
			r.taken, r.offset = r.taken+1, 0
		}
		text := r.lines[r.taken-1].text
		done := copy(p[n:], text[r.offset:])
		n, r.offset = n+done, r.offset+done
		if r.offset == len(text) && n < len(p) {
			p[n] = '\n'
			n, r.offset = n+1, r.offset+1
		}
	}
	return n, nil
}

// withdraw ends the reader and returns how many lines may have been sent.
func (r *lineReader) withdraw() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.withdrawn = true
	return r.taken
}
