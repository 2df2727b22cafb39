package check_test

import (
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// Each row alters one call of the clean history, which carried what was asked for.
func TestCallsCarryWhatWasAskedFor(t *testing.T) {
	for _, row := range []struct {
		name  string
		alter func(*check.Ask, *check.Sighting)
		fault bool
	}{
		{"as asked", func(*check.Ask, *check.Sighting) {}, false},
		{"not recorded", func(_ *check.Ask, s *check.Sighting) { s.Sent = nil }, false},
		{"the payload of another run", func(_ *check.Ask, s *check.Sighting) { s.Sent.Body = check.Hash(0).Add([]byte(`{"ref":"s1/2"}`)) }, true},
		{"no payload", func(_ *check.Ask, s *check.Sighting) { s.Sent.Body = 0 }, true},
		{"any payload will do", func(a *check.Ask, s *check.Sighting) { a.Known, s.Sent.Body = false, 7 }, false},
		{"another idempotency key", func(_ *check.Ask, s *check.Sighting) { s.Sent.Key = id(retried) }, true},
		{"no idempotency key", func(_ *check.Ask, s *check.Sighting) { s.Sent.Key = "" }, true},
		{"another job", func(_ *check.Ask, s *check.Sighting) { s.Sent.Job = id(retried) }, true},
		{"another content type", func(_ *check.Ask, s *check.Sighting) { s.Sent.Type = "text/plain" }, true},
		{"a header is missing", func(a *check.Ask, _ *check.Sighting) { a.Custom = a.Custom.AddHeader("X-Team", "a") }, true},
		{"a header has another value", func(a *check.Ask, s *check.Sighting) {
			a.Custom, s.Sent.Custom = a.Custom.AddHeader("X-Team", "a"), s.Sent.Custom.AddHeader("X-Team", "b")
		}, true},
		{"headers in another order", func(a *check.Ask, s *check.Sighting) {
			a.Custom = a.Custom.AddHeader("X-A", "1").AddHeader("X-B", "2")
			s.Sent.Custom = s.Sent.Custom.AddHeader("X-B", "2").AddHeader("X-A", "1")
		}, false},
		{"no attempt number", func(_ *check.Ask, s *check.Sighting) { s.Attempt = 0 }, true},
		{"no due time", func(_ *check.Ask, s *check.Sighting) { s.Due = time.Time{} }, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := clean()
			body := check.Hash(0).Add([]byte(`{"ref":"s1/1"}`))
			a, s := w.ask(onTime), w.sighting(onTime)
			a.Known, a.Body = true, body
			s.Due, s.Sent = at(10_000), &check.Sent{Key: id(onTime), Job: id(onTime), Type: check.JSONType, Body: body}
			row.alter(a, s)
			rep := judge(t, w.History)
			if rep.Altered > 0 != row.fault || hasFault(rep, check.FaultAltered) != row.fault || row.fault && !rep.Failed() {
				t.Errorf("Judge: altered %d, failed %t, want %t; faults: %+v", rep.Altered, rep.Failed(), row.fault, rep.Faults)
			}
		})
	}
}

// The runs of a recurring job name that job, and no other.
func TestRecurringCallsNameTheirJob(t *testing.T) {
	for job, fault := range map[string]bool{jobID(latest): false, jobID(steady): true} {
		w := cleanRecurring()
		for i := range w.Seen {
			if s := &w.Seen[i]; s.Run == rid(latest, 60_000) {
				s.Sent = &check.Sent{Key: s.Run, Job: job}
			}
		}
		if rep := judgeRecurring(t, w.RecurringHistory); rep.Altered > 0 != fault || rep.Failed() != fault {
			t.Errorf("JudgeRecurring of a call for job %s: altered %d, failed %t, want %t; faults: %v", job, rep.Altered, rep.Failed(), fault, rep.Faults)
		}
	}
}
