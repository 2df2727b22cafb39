package schema_test

import (
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// TestRunsCountUnderAValue: payloads with the same value under the key count together, others do
// not, and all without one do.
func TestRunsCountUnderAValue(t *testing.T) {
	value := func(key, payload string) string {
		c := schema.Concurrency{Limit: 1, Key: key}
		return c.Value([]byte(payload))
	}
	const none = schema.NoConcurrencyValue
	acme := value("/customer/id", `{"customer":{"id":"acme"}}`)
	if len(acme) != 32 || acme == none {
		t.Fatalf("Value = %q, want 32 digits", acme)
	}
	for _, c := range []struct {
		name, key, payload, want string
	}{
		{"no key", "", `{"customer":{"id":"acme"}}`, ""},
		{"more in the payload", "/customer/id", ` {"n":1,"customer":{"id":"acme","x":[]}} `, acme},
		{"escaped in the payload", "/customer/id", `{"customer":{"id":"\u0061cme"}}`, acme},
		{"elsewhere", "/a~1b/1/~0", `{"a/b":[0,{"~":"acme"}]}`, acme},
		{"twice: the last counts", "/id", `{"id":"x","id":"acme"}`, acme},
		{"no payload", "/customer/id", ``, none},
		{"not in the payload", "/customer/id", `{"customer":{}}`, none},
		{"below a text", "/customer/id", `{"customer":"acme"}`, none},
		{"not in the list", "/1", `["acme"]`, none},
		{"a number that begins with 0", "/00", `["acme"]`, none},
		{"null", "/id", `{"id":null}`, none},
		{"an object", "/id", `{"id":{"id":"acme"}}`, none},
		{"a list", "/id", `{"id":["acme"]}`, none},
		{"no JSON", "/id", `acme`, none},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := value(c.key, c.payload); got != c.want {
				t.Errorf("Value of %s at %q = %q, want %q", c.payload, c.key, got, c.want)
			}
		})
	}
	seen := make(map[string]string)
	for _, payload := range []string{`{"id":"acme"}`, `{"id":"Acme"}`, `{"id":""}`, `{"id":"-"}`, `{"id":1}`, `{"id":1.0}`, `{"id":"1"}`, `{"id":true}`, `{"id":"true"}`, `{"id":false}`, `{}`} {
		got := value("/id", payload)
		if other, known := seen[got]; known {
			t.Errorf("%s and %s count together, as %q", payload, other, got)
		}
		seen[got] = payload
	}
}

// TestARunKeepsItsValue: an entry that lacks the payload has the value of the run's first.
func TestARunKeepsItsValue(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	job := schema.MakeJobID(now, 3, 7)
	payload := []byte(`{"id":"acme","pad":"` + strings.Repeat("x", schema.InlinePayload) + `"}`)
	spec := schema.Spec{Tenant: "t", Nominal: now, Job: job, Concurrency: &schema.Concurrency{Limit: 1, Key: "/id"}}
	first, err := schema.NewEntry(schema.MakeEntryID(now, 3, 1), spec, payload, now)
	if err != nil {
		t.Fatal(err)
	}
	later := first.Spec
	later.PayloadAt = first.ID
	next, err := schema.NewEntry(schema.MakeEntryID(now, 3, 2), later, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	read := schema.LoadEntry(next.ID, next.Text(), nil, schema.Marks{})
	want := schema.LimitKey("job/" + job.String() + "/" + spec.Concurrency.Value(payload))
	if got := read.Spec.Limit(); read.Fault != nil || got != want || got != first.Spec.Limit() {
		t.Errorf("Limit = %q, %v; want %q, as of the first entry, %q", got, read.Fault, want, first.Spec.Limit())
	}
	if got, ok := want.Job(); !ok || got != job {
		t.Errorf("Job of %s = %v, %v; want %v", want, got, ok, job)
	}
	plain := schema.Spec{Job: job, Concurrency: &schema.Concurrency{Limit: 1}}
	if got := plain.Limit(); got != schema.JobLimit(job) {
		t.Errorf("Limit without a key = %q, want %q", got, schema.JobLimit(job))
	}
}
