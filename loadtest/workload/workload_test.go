package workload_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/workload"
)

var from = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func spec() workload.Spec {
	return workload.Spec{
		N: 2000, Immediate: 17, From: from, Spread: time.Minute, PayloadBytes: 100, Seed: 7, Source: "s7",
		Target: "http://127.0.0.1:9/hook", Keyed: true,
	}
}

func write(t *testing.T, s workload.Spec) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		t.Fatalf("Write: %v", err)
	}
	return b.Bytes()
}

func TestJobsAreAsSpecified(t *testing.T) {
	out := write(t, spec())
	asks, err := journal.ReadAsked(bytes.NewReader(out), "s7")
	if err != nil {
		t.Fatalf("ReadAsked: %v", err)
	}
	if len(asks) != 2000 {
		t.Fatalf("%d jobs, want 2000", len(asks))
	}
	immediate, early := 0, 0
	for _, a := range asks {
		switch {
		case a.At.IsZero():
			immediate++
		case a.At.Before(from) || !a.At.Before(from.Add(time.Minute)) || !a.At.Equal(a.At.Truncate(time.Millisecond)):
			t.Errorf("job %s is due %s, want a whole ms within a minute from %s", a.Ref, a.At, from)
		case a.At.Before(from.Add(30 * time.Second)):
			early++
		}
	}
	if immediate != 17 {
		t.Errorf("%d immediate jobs, want 17", immediate)
	}
	if early < 850 || early > 1130 { // 5 σ about the half
		t.Errorf("%d of 1983 jobs in the first half of the spread, want about half", early)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		var job struct {
			Key  string `json:"key"`
			HTTP struct {
				URL string `json:"url"`
			} `json:"http"`
			Payload json.RawMessage `json:"payload"`
		}
		if err := json.Unmarshal([]byte(line), &job); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		ref := check.Ref{Source: "s7", Line: i + 1}
		if got, _ := check.ParseRef(job.HTTP.URL); got != ref {
			t.Fatalf("line %d calls %s, want the address of %s", i+1, job.HTTP.URL, ref)
		}
		if got := journal.RefOfPayload(job.Payload); got != ref {
			t.Fatalf("line %d carries %s, want %s", i+1, job.Payload, ref)
		}
		if len(job.Payload) != 100 {
			t.Fatalf("line %d has a payload of %d bytes, want 100", i+1, len(job.Payload))
		}
		if want := strings.ReplaceAll(ref.String(), "/", "-"); job.Key != want {
			t.Fatalf("line %d has the key %q, want %q", i+1, job.Key, want)
		}
	}
}

func TestTheSameSpecMakesTheSameBytes(t *testing.T) {
	a := write(t, spec())
	if !bytes.Equal(a, write(t, spec())) {
		t.Error("two writes of one Spec differ")
	}
	other := spec()
	other.Seed++
	if bytes.Equal(a, write(t, other)) {
		t.Error("another seed makes the same bytes")
	}
}

func TestAllAtOnceWithTheLeastPayload(t *testing.T) {
	s := spec()
	s.Spread, s.PayloadBytes, s.Immediate, s.Keyed = 0, 0, 0, false
	asks, err := journal.ReadAsked(bytes.NewReader(write(t, s)), "s7")
	if err != nil {
		t.Fatalf("ReadAsked: %v", err)
	}
	for _, a := range asks {
		if !a.At.Equal(from) || a.Key != "" {
			t.Fatalf("job %s is due %s with key %q, want %s and none", a.Ref, a.At, a.Key, from)
		}
	}
}

func TestValidateTellsEveryFault(t *testing.T) {
	err := workload.Spec{N: 0, Immediate: 1, Spread: time.Microsecond, PayloadBytes: 3, Source: "a/b", Target: "ftp://x"}.Validate()
	if err == nil {
		t.Fatal("Validate = nil, want an error")
	}
	for _, want := range []string{"n is", "immediate is", "spread is", "source is", "payload is", "target is"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want also %q", err, want)
		}
	}
	s := spec()
	s.From = time.Time{}
	if s.Validate() == nil {
		t.Error("Validate without From = nil, want an error")
	}
	s.Immediate = s.N
	if err := s.Validate(); err != nil {
		t.Errorf("Validate of immediate jobs only, without From: %v", err)
	}
}

func TestKindsAreGivenInTurn(t *testing.T) {
	spec := workload.Spec{
		N: 4, From: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), Source: "s1", Target: "http://h",
		Kinds: []workload.Kind{
			{},
			{Manner: "work-500ms/fail-1", Guarantee: "effectively_once", Timeout: "10s", Retry: &workload.Retry{MaxAttempts: 3, Initial: "200ms"}},
			{Guarantee: "at_most_once"},
			{Task: "herd"},
		},
	}
	var b bytes.Buffer
	if err := spec.Write(&b); err != nil {
		t.Fatalf("Write: %v", err)
	}
	const due = `"schedule":{"at":"2026-11-21T10:00:00.000Z"},"payload":`
	want := `{"http":{"url":"http://h/s1/1"},` + due + `{"ref":"s1/1"}}
{"http":{"url":"http://h/work-500ms/fail-1/s1/2"},"guarantee":"effectively_once","timeout":"10s","retry":{"max_attempts":3,"initial":"200ms"},` + due + `{"ref":"s1/2"}}
{"http":{"url":"http://h/s1/3"},"guarantee":"at_most_once",` + due + `{"ref":"s1/3"}}
{"task":"herd",` + due + `{"ref":"s1/4"}}
`
	if b.String() != want {
		t.Errorf("Write gave\n%swant\n%s", b.String(), want)
	}
	spec.Kinds[0].Manner = "a b"
	if err := spec.Validate(); err == nil {
		t.Error("Validate with a blank in a manner = nil, want an error")
	}
	spec.Kinds = []workload.Kind{{Task: "herd", Manner: "fail"}}
	if err := spec.Validate(); err == nil {
		t.Error("Validate with a manner beside a task = nil, want an error")
	}
}
