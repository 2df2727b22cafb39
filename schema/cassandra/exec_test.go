package cassandra

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

// answer is an error that Cassandra sends.
type answer struct {
	code    int
	message string
}

func (a answer) Code() int       { return a.code }
func (a answer) Message() string { return a.message }
func (a answer) Error() string   { return a.message }

// lacking is Cassandra's answer that too few replicas are up for the consistency.
type lacking struct {
	answer
	consistency gocql.Consistency
}

// Unwrap returns what the driver makes of it, whose code only the driver can set.
func (l lacking) Unwrap() error { return &gocql.RequestErrUnavailable{Consistency: l.consistency} }

func lack(c gocql.Consistency) error {
	return lacking{answer{gocql.ErrCodeUnavailable, "unavailable"}, c}
}

func TestClassify(t *testing.T) {
	other := errors.New("none of schema's")
	for _, test := range []struct {
		name                          string
		err                           error
		reading, writing, conditional error
	}{
		{"too few replicas", lack(gocql.LocalQuorum), schema.ErrUnavailable, schema.ErrUnavailable, schema.ErrUnknown},
		{"too few replicas to agree on the write", lack(gocql.Consistency(gocql.LocalSerial)), schema.ErrUnavailable, schema.ErrUnavailable, schema.ErrUnavailable},
		{"too few replicas, it is not said for what", answer{gocql.ErrCodeUnavailable, ""}, schema.ErrUnavailable, schema.ErrUnavailable, schema.ErrUnknown},
		{"starting", answer{gocql.ErrCodeBootstrapping, ""}, schema.ErrUnavailable, schema.ErrUnavailable, schema.ErrUnavailable},
		{"overloaded", answer{gocql.ErrCodeOverloaded, ""}, schema.ErrUnavailable, schema.ErrUnknown, schema.ErrUnknown},
		{"server's fault", answer{gocql.ErrCodeServer, ""}, schema.ErrUnavailable, schema.ErrUnknown, schema.ErrUnknown},
		{"read time-out", answer{gocql.ErrCodeReadTimeout, ""}, schema.ErrUnavailable, schema.ErrUnknown, schema.ErrUnknown},
		{"write time-out", answer{gocql.ErrCodeWriteTimeout, ""}, schema.ErrUnavailable, schema.ErrUnknown, schema.ErrUnknown},
		{"write failure", answer{gocql.ErrCodeWriteFailure, ""}, schema.ErrUnavailable, schema.ErrUnknown, schema.ErrUnknown},
		{"read failure", answer{gocql.ErrCodeReadFailure, ""}, schema.ErrUnavailable, schema.ErrUnknown, schema.ErrUnknown},
		{"no room for change data", answer{gocql.ErrCodeCDCWriteFailure, ""}, schema.ErrUnavailable, schema.ErrUnknown, schema.ErrUnknown},
		{"conditional write unknown", answer{gocql.ErrCodeCASWriteUnknown, ""}, schema.ErrUnavailable, schema.ErrUnknown, schema.ErrUnknown},
		{"batch too large", answer{gocql.ErrCodeInvalid, "Batch too large"}, schema.ErrTooLarge, schema.ErrTooLarge, schema.ErrTooLarge},
		{"invalid", answer{gocql.ErrCodeInvalid, "unknown column"}, other, other, other},
		{"not permitted", answer{gocql.ErrCodeUnauthorized, ""}, other, other, other},
		{"a code of a later version", gocql.NewErrProtocol("unknown error code: 0x1900"), schema.ErrUnavailable, schema.ErrUnknown, schema.ErrUnknown},
		{"syntax", answer{gocql.ErrCodeSyntax, ""}, other, other, other},
		{"no answer", gocql.ErrTimeoutNoResponse, schema.ErrUnavailable, schema.ErrUnknown, schema.ErrUnknown},
		{"connection closed with the request under way", gocql.ErrConnectionClosed, schema.ErrUnavailable, schema.ErrUnknown, schema.ErrUnknown},
		{"connection closed for its time-outs", gocql.ErrTooManyTimeouts, schema.ErrUnavailable, schema.ErrUnknown, schema.ErrUnknown},
		{"answer that cannot be read", gocql.UnmarshalError("x"), schema.ErrUnavailable, schema.ErrUnknown, schema.ErrUnknown},
		{"no room on the connection", gocql.ErrNoStreams, schema.ErrUnavailable, schema.ErrUnavailable, schema.ErrUnavailable},
		{"broken connection", fmt.Errorf("x: %w", io.EOF), schema.ErrUnavailable, schema.ErrUnknown, schema.ErrUnknown},
		{"context ended", context.DeadlineExceeded, schema.ErrUnavailable, schema.ErrUnknown, schema.ErrUnknown},
		{"no connection", gocql.ErrNoConnections, schema.ErrUnavailable, schema.ErrUnavailable, schema.ErrUnavailable},
		{"closed", gocql.ErrSessionClosed, schema.ErrUnavailable, schema.ErrUnavailable, schema.ErrUnavailable},
		{"no row", gocql.ErrNotFound, schema.ErrNotFound, schema.ErrNotFound, schema.ErrNotFound},
		{"frame too big", gocql.ErrFrameTooBig, schema.ErrTooLarge, schema.ErrTooLarge, schema.ErrTooLarge},
		{"value of a wrong type", gocql.MarshalError("x"), other, other, other},
	} {
		for m, want := range map[mode]error{reading: test.reading, writing: test.writing, conditional: test.conditional} {
			err := translate(test.err, m)
			if !errors.Is(err, test.err) {
				t.Errorf("%s, mode %d: %v lost its cause", test.name, m, err)
			}
			for _, kind := range []error{schema.ErrUnavailable, schema.ErrUnknown, schema.ErrNotFound, schema.ErrConflict, schema.ErrTooLarge} {
				if errors.Is(err, kind) != errors.Is(want, kind) {
					t.Errorf("%s, mode %d: got %v, want %v", test.name, m, err, want)
				}
			}
		}
	}
}

func TestRepeat(t *testing.T) {
	unavailable, timeout, invalid := answer{gocql.ErrCodeUnavailable, ""}, answer{gocql.ErrCodeWriteTimeout, ""}, answer{gocql.ErrCodeInvalid, ""}
	type try struct {
		took time.Duration
		err  error
	}
	for _, test := range []struct {
		name  string
		mode  mode
		tries []try // the last one stays
		calls int
		want  error
	}{
		{"at once", reading, []try{{0, nil}}, 1, nil},
		{"after some", writing, []try{{0, timeout}, {0, unavailable}, {0, nil}}, 3, nil},
		{"never", reading, []try{{0, unavailable}}, 1 + maxRetries, schema.ErrUnavailable},
		{"never written", writing, []try{{0, unavailable}}, 1 + maxRetries, schema.ErrUnavailable},
		{"once unknown is unknown for good", writing, []try{{0, timeout}, {0, unavailable}}, 1 + maxRetries, schema.ErrUnknown},
		{"a copy may have gone elsewhere", writing, []try{{speculativeDelay, unavailable}}, 1 + maxRetries, schema.ErrUnknown},
		{"a fault of ours is not repeated", writing, []try{{0, invalid}}, 1, invalid},
		{"a conditional write is not repeated", conditional, []try{{0, timeout}, {0, nil}}, 1, schema.ErrUnknown},
		{"unless nothing was proposed", conditional, []try{{0, lack(gocql.Consistency(gocql.LocalSerial))}, {0, nil}}, 2, nil},
		{"a conditional write without replicas for its commit is not repeated", conditional, []try{{0, lack(gocql.LocalQuorum)}, {0, nil}}, 1, schema.ErrUnknown},
		{"no row is an answer", reading, []try{{0, gocql.ErrNotFound}}, 1, schema.ErrNotFound},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, start := 0, time.Now()
				err := repeat(t.Context(), test.mode, maxRetries, func() {}, func() error {
					try := test.tries[min(calls, len(test.tries)-1)]
					calls++
					time.Sleep(try.took)
					return try.err
				})
				if !errors.Is(err, test.want) || calls != test.calls {
					t.Errorf("repeat: got %v after %d calls, want %v after %d", err, calls, test.want, test.calls)
				}
				if errors.Is(err, schema.ErrUnknown) && errors.Is(err, schema.ErrUnavailable) {
					t.Errorf("repeat: %v is two things", err)
				}
				if took := time.Since(start); took > maxRetries*(2*maxRetryWait)+time.Second {
					t.Errorf("repeat: took %s", took)
				}
			})
		})
	}
}

// TestRepeatEndsWithItsContext: before the first try nothing was sent; while waiting the last
// answer counts.
func TestRepeatEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := repeat(ctx, writing, maxRetries, func() {}, func() error { cancel(); return gocql.ErrTimeoutNoResponse })
		if !errors.Is(err, schema.ErrUnknown) {
			t.Errorf("cancelled while waiting: got %v, want ErrUnknown", err)
		}
		err = repeat(ctx, writing, maxRetries, func() {}, func() error { t.Error("called"); return nil })
		if !errors.Is(err, schema.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before: got %v, want ErrUnavailable and the context's", err)
		}
	})
}

func TestFit(t *testing.T) {
	lines := func(sizes ...int) (out []line) {
		for _, s := range sizes {
			out = append(out, line{bytes: s})
		}
		return out
	}
	for _, test := range []struct {
		name        string
		lines       []line
		rows, bytes int
		want        int
	}{
		{"all", lines(1, 2, 3), 10, 10, 3},
		{"rows", lines(1, 1, 1), 2, 10, 2},
		{"bytes", lines(4, 4, 4), 10, 10, 2},
		{"exactly", lines(5, 5, 5), 10, 10, 2},
		{"one too large goes alone", lines(40, 1), 10, 10, 1},
		{"one too large is left", lines(1, 40), 10, 10, 1},
	} {
		if got := fit(test.lines, test.rows, test.bytes); got != test.want {
			t.Errorf("%s: fit: got %d, want %d", test.name, got, test.want)
		}
	}
}

func TestPageSizer(t *testing.T) {
	var p pageSizer
	if got := p.rows(1<<20, 1<<30); got != 1<<20/firstRowGuess {
		t.Errorf("rows at first: got %d, want %d", got, 1<<20/firstRowGuess)
	}
	p.saw(64 << 10)
	if got := p.rows(1<<20, 1<<30); got != 16 {
		t.Errorf("rows after one of 64 KiB: got %d, want 16", got)
	}
	for range 60 {
		p.saw(100)
	}
	if got := p.rows(1<<20, 1<<30); got != maxPageRows {
		t.Errorf("rows after many small ones: got %d, want %d", got, maxPageRows)
	}
	p.saw(0) // an empty page tells nothing
	if got := p.rows(1<<20, 3); got != 3 {
		t.Errorf("rows within a limit: got %d, want 3", got)
	}
	p.saw(1 << 30)
	if got := p.rows(1<<20, 3); got != 1 {
		t.Errorf("rows of giants: got %d, want 1", got)
	}
}

func TestTTL(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name    string
		expires time.Time
		want    int
	}{
		{"never", time.Time{}, 0},
		{"an hour", now.Add(time.Hour), 3600},
		{"now", now, 1},
		{"over", now.Add(-time.Hour), 1},
		{"longer than Cassandra takes", now.AddDate(30, 0, 0), maxTTL},
	} {
		if got := ttlAt(now, test.expires); got != test.want {
			t.Errorf("%s: ttlAt: got %d, want %d", test.name, got, test.want)
		}
	}
}

func TestSpeculationAsksNoMoreThanThereAre(t *testing.T) {
	s := newSpeculation(gocql.RoundRobinHostPolicy())
	hosts := make([]*gocql.HostInfo, 4)
	for i := range hosts {
		hosts[i] = new(gocql.HostInfo)
		hosts[i].SetHostID(fmt.Sprint(i))
		hosts[i].SetConnectAddress([]byte{127, 0, 0, byte(i + 1)})
	}
	if got := s.Attempts(); got != 0 {
		t.Errorf("Attempts without hosts: got %d, want 0", got)
	}
	for i, want := range []int{0, 1, 2, 2} {
		s.AddHost(hosts[i])
		if got := s.Attempts(); got != want {
			t.Errorf("Attempts with %d hosts: got %d, want %d", i+1, got, want)
		}
	}
	s.HostDown(hosts[0])
	s.HostDown(hosts[0])
	s.RemoveHost(hosts[1])
	if got := s.Attempts(); got != 1 {
		t.Errorf("Attempts with two of four: got %d, want 1", got)
	}
	s.HostUp(hosts[0])
	if got := s.Attempts(); got != 2 {
		t.Errorf("Attempts with three of four: got %d, want 2", got)
	}
}

// TestSlowClusterIsNotAskedTwice: one lingering node is worth asking another; when nearly
// everything lingers, more questions make it worse.
func TestSlowClusterIsNotAskedTwice(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name      string
		slow, all int
		want      bool
	}{
		{"all is quick", 0, 100, false},
		{"one node of three is slow", 66, 100, false},
		{"everything is slow", 100, 100, true},
		{"too few to tell", 10, 10, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var crowd crowd
			crowd.observe(0, begin)
			for i := range c.all {
				d := time.Millisecond
				if i < c.slow {
					d = speculativeDelay + time.Millisecond
				}
				crowd.observe(d, begin.Add(time.Millisecond))
			}
			crowd.observe(0, begin.Add(lingerSpan))
			if got := crowd.slowAll(); got != c.want {
				t.Errorf("slowAll() after %d slow ones of %d = %v, want %v", c.slow, c.all, got, c.want)
			}
			for range lingerLeast {
				crowd.observe(0, begin.Add(lingerSpan+time.Millisecond))
			}
			crowd.observe(0, begin.Add(2*lingerSpan))
			if crowd.slowAll() {
				t.Error("slowAll() stays when all is quick again")
			}
		})
	}
}
