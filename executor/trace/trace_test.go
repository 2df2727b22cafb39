package trace

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
)

// someRuns returns n run ids as intake makes them, the same each time.
func someRuns(n int) []schema.RunID {
	runs := make([]schema.RunID, n)
	at := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	for i := range runs {
		runs[i] = schema.MakeEntryID(at.Add(time.Duration(i)*time.Millisecond), schema.Shard(i%64), schema.HashOf("run", string(rune(i))))
	}
	return runs
}

func entryOf(t *testing.T, run schema.RunID, spec schema.Spec) *schema.Entry {
	t.Helper()
	spec.Tenant = "t"
	e, err := schema.NewEntry(run, spec, nil, run.Time().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return &e
}

// TestARatioIsKept: of 10,000 runs about a tenth is sampled at 0.1, the same ones by every node,
// and all of these at a higher ratio too. The library's own sampler took none of them, or all.
func TestARatioIsKept(t *testing.T) {
	runs := someRuns(10_000)
	before := map[schema.RunID]bool{}
	for _, r := range []struct {
		name, arg string
		low, high int
	}{
		{"traceidratio", "0", 0, 0},
		{"parentbased_traceidratio", "0.01", 70, 130},
		{"parentbased_traceidratio", "0.1", 900, 1100},
		{"traceidratio", "0.5", 4800, 5200},
		{"traceidratio", "1", 10_000, 10_000},
		{"traceidratio", "", 10_000, 10_000},
		{"", "", 10_000, 10_000},
		{"ALWAYS_ON", "0.5", 10_000, 10_000},
	} {
		s, err := ParseSampler(r.name, r.arg)
		other, _ := ParseSampler(r.name, r.arg)
		if err != nil {
			t.Fatalf("ParseSampler(%q, %q): %v", r.name, r.arg, err)
		}
		n := 0
		sampled := map[schema.RunID]bool{}
		for _, run := range runs {
			if s.Samples(run) {
				n++
				sampled[run] = true
			} else if before[run] {
				t.Fatalf("%s is sampled at a lower ratio, and not at %s", run, r.arg)
			}
			if s.Samples(run) != other.Samples(run) {
				t.Fatalf("two samplers of %s differ on %s", r.arg, run)
			}
		}
		if n < r.low || n > r.high {
			t.Errorf("%s %s: %d of 10,000 runs are sampled, want %d to %d", r.name, r.arg, n, r.low, r.high)
		}
		before = sampled
	}
}

// TestWhatMattersIsSent: at a ratio of 0.1 of 10,000 runs every one is sent that failed, was late
// or was retried, and callees are told so where it is known.
func TestWhatMattersIsSent(t *testing.T) {
	s, err := ParseSampler("parentbased_traceidratio", "0.1")
	if err != nil {
		t.Fatal(err)
	}
	on, off, told := Tracer{Sampler: s, Sink: nowhere{}}, Tracer{Sampler: Sampler{}, Sink: nowhere{}}, Tracer{Sampler: s}
	for _, run := range someRuns(10_000) {
		e := entryOf(t, run, schema.Spec{})
		sampled := s.Samples(run)
		for _, c := range []struct {
			name    string
			number  int
			late    time.Duration
			outcome schema.Outcome
			foreseen,
			sent bool
		}{
			{"on time", 1, schema.LateStart, schema.Succeeded, sampled, sampled},
			{"cancelled", 1, 0, schema.Cancelled, sampled, sampled},
			{"late", 1, schema.LateStart + 1, schema.Succeeded, true, true},
			{"second attempt", 2, 0, schema.Succeeded, true, true},
			{"failed", 1, 0, schema.Failed, sampled, true},
			{"timed out", 1, 0, schema.TimedOut, sampled, true},
			{"lost", 1, 0, schema.Lost, sampled, true},
			{"missed", 0, 0, schema.Missed, sampled, true},
		} {
			if got := on.Foresees(e, c.number, c.late); got != c.foreseen {
				t.Fatalf("Foresees of %s, %s: %v, want %v", run, c.name, got, c.foreseen)
			}
			if got := on.Sends(e, c.number, c.late, c.outcome); got != c.sent {
				t.Fatalf("Sends of %s, %s: %v, want %v", run, c.name, got, c.sent)
			}
			if off.Foresees(e, c.number, c.late) || off.Sends(e, c.number, c.late, c.outcome) {
				t.Fatalf("always_off sends %s, %s", run, c.name)
			}
			if told.Sends(e, c.number, c.late, c.outcome) || told.Foresees(e, c.number, c.late) != sampled {
				t.Fatalf("without an endpoint %s, %s is sent, or not told by the sampler alone", run, c.name)
			}
		}
		if (&Tracer{}).Foresees(e, 2, time.Hour) {
			t.Fatal("without any setting a callee is told that its caller's span will be sent")
		}
	}
}

type nowhere struct{}

func (nowhere) Send(...Span) {}

// TestStepsFollowTheirWorkflow: all runs of one workflow run have its verdict, and a link to it.
func TestStepsFollowTheirWorkflow(t *testing.T) {
	s, err := ParseSampler("traceidratio", "0.5")
	if err != nil {
		t.Fatal(err)
	}
	for _, workflow := range someRuns(200) {
		for step := range 3 {
			e := entryOf(t, schema.MakeStepID(workflow, step, 0), schema.Spec{Step: &schema.Step{Workflow: workflow, Name: "a", Due: workflow.Time()}})
			if s.SamplesRun(e) != s.Samples(workflow) {
				t.Fatalf("step %d of %s: SamplesRun differs from that of its workflow", step, workflow)
			}
			span := (&Run{Entry: e, Number: 1, Record: &schema.Record{Finished: workflow.Time(), Outcome: schema.Succeeded}}).Span()
			if len(span.Links) != 1 || span.Links[0] != LinkTo(workflow) {
				t.Fatalf("step %d of %s has the links %v", step, workflow, span.Links)
			}
		}
	}
}

func TestSamplersThatAreRefused(t *testing.T) {
	for _, c := range []struct{ name, arg, want string }{
		{"sometimes", "", "OTEL_TRACES_SAMPLER: \"sometimes\""},
		{"parentbased_", "", "OTEL_TRACES_SAMPLER"},
		{"traceidratio", "10%", "OTEL_TRACES_SAMPLER_ARG"},
		{"traceidratio", "1.5", "OTEL_TRACES_SAMPLER_ARG"},
		{"traceidratio", "-0.1", "OTEL_TRACES_SAMPLER_ARG"},
		{"traceidratio", "NaN", "OTEL_TRACES_SAMPLER_ARG"},
	} {
		if _, err := ParseSampler(c.name, c.arg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("ParseSampler(%q, %q) = %v, want an error about %s", c.name, c.arg, err, c.want)
		}
	}
}

// TestCallersDecide: a request of a trace that others have begun goes by what they say, but for a
// sampler that does not ask.
func TestCallersDecide(t *testing.T) {
	id := [16]byte(someRuns(1)[0])
	for _, c := range []struct {
		name                        string
		parent, parentSampled, want bool
	}{
		{"parentbased_always_on", true, false, false},
		{"parentbased_always_off", true, true, true},
		{"parentbased_always_on", false, false, true},
		{"always_on", true, false, true},
		{"always_off", true, true, false},
	} {
		s, err := ParseSampler(c.name, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.SamplesRequest(id, c.parent, c.parentSampled); got != c.want {
			t.Errorf("%s: SamplesRequest(parent %v, sampled %v) = %v, want %v", c.name, c.parent, c.parentSampled, got, c.want)
		}
	}
}

// TestNoSecretOfATargetIsTold: of a URL only scheme, host and port are.
func TestNoSecretOfATargetIsTold(t *testing.T) {
	run := someRuns(1)[0]
	a := Attempt{
		Entry: entryOf(t, run, schema.Spec{}), Number: 1, Fence: 7,
		Work: &schema.Work{HTTP: &schema.HTTPTarget{
			URL: "https://user:secret@hooks.test:8443/secret?token=secret#secret", Headers: map[string]string{"Authorization": "secret"},
		}},
		Record: &schema.Record{Started: run.Time(), Finished: run.Time().Add(time.Second), Outcome: schema.Failed, Status: 503, Error: "answered 503"},
	}
	spans := a.Spans()
	said := map[string]string{}
	for _, attr := range spans[0].Attrs {
		said[attr.Key] = attr.Text
		if strings.Contains(attr.Text, "secret") {
			t.Errorf("%s tells %q", attr.Key, attr.Text)
		}
	}
	if len(spans) != 1 || said["server.address"] != "hooks.test" || said["error.type"] != "503" || !spans[0].Failed {
		t.Errorf("an attempt whose receipt is not known is told as %+v", spans)
	}
}

// TestSpansOfAnAttempt: what was before the start is told apart, and a retry of a run that was
// moved begins no later than its first start.
func TestSpansOfAnAttempt(t *testing.T) {
	run := someRuns(1)[0]
	due := run.Time()
	at := func(ms int) time.Time { return due.Add(time.Duration(ms) * time.Millisecond) }
	for _, c := range []struct {
		name              string
		received, started int
		want              string
	}{
		{"received ahead", -200, 2, "wait 0-2 attempt 2-102"},
		{"received late", 50, 52, "dispatch 0-50 wait 50-52 attempt 52-152"},
		{"clock set back", 50, -10, "attempt -10-90"},
	} {
		a := Attempt{
			Entry: entryOf(t, run, schema.Spec{}), Number: 1, Fence: 7, Received: at(c.received),
			Record: &schema.Record{Started: at(c.started), Finished: at(c.started + 100), Outcome: schema.Succeeded},
		}
		var got []string
		ids := map[SpanID]bool{RunSpan(run): true}
		for _, s := range a.Spans() {
			got = append(got, strings.TrimSuffix(s.Name, " 1")+" "+s.Start.Sub(due).String()+"-"+s.End.Sub(due).String())
			if s.Trace != [16]byte(run) || s.Parent != RunSpan(run) || ids[s.ID] {
				t.Errorf("%s: %s has the trace %x, parent %x and id %x", c.name, s.Name, s.Trace, s.Parent, s.ID)
			}
			ids[s.ID] = true
		}
		text := strings.NewReplacer("ms", "", "0s", "0").Replace(strings.Join(got, " "))
		if text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
	later := entryOf(t, schema.MakeEntryID(at(5000), run.Shard(), 9), schema.Spec{Kind: schema.KindRetry, Of: run, Attempt: 2, Began: at(-1000).UnixMicro()})
	r := Run{Entry: later, Number: 2, Record: &schema.Record{Finished: at(6000), Outcome: schema.Succeeded}}
	if s := r.Span(); !s.Start.Equal(at(-1000)) || !s.End.Equal(at(6000)) || s.Parent != (SpanID{}) {
		t.Errorf("the run is told as %s to %s", s.Start.Sub(due), s.End.Sub(due))
	}
}

// TestAStormIsThinned: of 5,000 late runs a second some hundreds are sent in the first second and a
// hundred in each after it, each with its attempt; afterwards all are sent again. A node that sees
// half as many sends all that the other sends.
func TestAStormIsThinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sampler, err := ParseSampler("traceidratio", "0")
		if err != nil {
			t.Fatal(err)
		}
		spared := 0
		busy := Tracer{Sampler: sampler, Sink: discard{}, Storm: &Storm{Spared: func() { spared++ }}}
		calm := Tracer{Sampler: sampler, Sink: discard{}, Storm: &Storm{}}
		runs := someRuns(10_000)
		verdicts := func(tracer *Tracer, run schema.RunID) int {
			e, n := entryOf(t, run, schema.Spec{}), 0
			if tracer.Foresees(e, 1, time.Minute) {
				n++
			}
			if tracer.Sends(e, 1, time.Minute, schema.Succeeded) {
				n++
			}
			return n
		}
		for second := range 4 {
			sent, torn := 0, 0
			for i, run := range runs[:5000] {
				n := verdicts(&busy, run)
				if n > 0 {
					sent++
				}
				if n == 1 {
					torn++
				}
				if i%2 == 0 && second > 0 {
					if m := verdicts(&calm, run); n > m && second > 1 {
						t.Fatalf("second %d: the busier node sends %d of run %d, the other %d", second, n, i, m)
					}
				}
			}
			if low, high := 70, 130; second > 0 && (sent < low || sent > high || torn > 0) {
				t.Errorf("second %d: %d runs were sent, %d torn, want %d to %d and none", second, sent, torn, low, high)
			}
			if second == 0 && (sent < 100 || sent > 900 || torn > 10) {
				t.Errorf("first second: %d runs were sent, %d torn, want some hundreds, and few", sent, torn)
			}
			time.Sleep(time.Second)
		}
		if spared < 30_000 {
			t.Errorf("%d verdicts were counted as spared, want nearly all of 40,000", spared)
		}
		time.Sleep(2 * time.Second)
		for _, run := range runs[5000:5100] {
			if verdicts(&busy, run) != 2 {
				t.Fatal("after the storm a run is not sent as a whole")
			}
		}
	})
}

type discard struct{}

func (discard) Send(...Span) {}
