package schema_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

func TestWritten(t *testing.T) {
	job := func(current, before int64) schema.Job {
		j := schema.Job{Current: schema.Generation{Number: current}}
		if before != 0 {
			j.Before = &schema.Generation{Number: before}
		}
		return j
	}
	for _, c := range []struct {
		name       string
		stands     schema.Job
		done, sure bool // of the write of generation 20 over 10
	}{
		{"it stands, never changed", job(20, 0), true, true},
		{"it stands", job(20, 10), true, true},
		{"changed since", job(30, 20), true, true},
		{"still what it was to replace", job(10, 0), false, true},
		{"still what it was to replace, changed before", job(10, 5), false, true},
		{"another came first", job(15, 10), false, true},
		{"another came first, with a higher number", job(30, 10), false, true},
		{"two others, the first with a lower number", job(30, 15), false, true},
		{"two changes, the first may have followed it", job(40, 30), false, false},
		{"made by another", job(30, 0), false, true},
	} {
		if done, sure := c.stands.Written(20); done != c.done || sure != c.sure {
			t.Errorf("%s: Written(20) = %v, %v; want %v, %v", c.name, done, sure, c.done, c.sure)
		}
	}
}

// An occurrence that was planned from a job just made must be the one that is planned from the
// stored job.
func TestJobSpecKeepsItsBytes(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	spec := schema.JobSpec{
		Tenant: "t", Name: "n<&>\u2028", MaxRuns: 3,
		Schedule: &schema.Schedule{Every: schema.Duration(time.Minute), Anchor: at},
		Work:     &schema.Work{HTTP: &schema.HTTPTarget{URL: "https://example.org/?a=1&b=<2>"}, Retry: &schema.Retry{Factor: 1.5}},
		Payload:  json.RawMessage(`{"z":1.50e3,"a":"<&>\u00fc","big":12345678901234567890,"z":null}`),
		Created:  at, Updated: at,
	}
	text, err := schema.EncodeJobSpec(&spec)
	if err != nil {
		t.Fatalf("EncodeJobSpec = %v", err)
	}
	got, err := schema.DecodeJobSpec(text)
	if err != nil || !reflect.DeepEqual(got, spec) || string(got.Payload) != string(spec.Payload) {
		t.Errorf("DecodeJobSpec = %+v, payload %s, %v;\nwant %+v, payload %s", got, got.Payload, err, spec, spec.Payload)
	}
	again, err := schema.EncodeJobSpec(&got)
	if err != nil || string(again) != string(text) {
		t.Errorf("EncodeJobSpec of what was decoded = %s, %v; want %s", again, err, text)
	}
	if _, err := schema.EncodeJobSpec(&schema.JobSpec{Payload: json.RawMessage(`{`)}); err == nil {
		t.Error("EncodeJobSpec of a payload that is no JSON = no error")
	}
	if _, err := schema.DecodeJobSpec([]byte(`{`)); err == nil {
		t.Error("DecodeJobSpec of no JSON = no error")
	}
}

func TestPeriodOf(t *testing.T) {
	for _, c := range []struct {
		at   time.Time
		want int
	}{
		{time.Unix(0, 0), 0},
		{time.Unix(0, -1), -1},
		{time.Date(1970, 1, 2, 0, 0, 0, -1, time.UTC), 0},
		{time.Date(1970, 1, 2, 1, 0, 0, 0, time.FixedZone("", 3600)), 1},
	} {
		if got := schema.PeriodOf(c.at); got != c.want {
			t.Errorf("PeriodOf(%v) = %d, want %d", c.at, got, c.want)
		}
		r := schema.JobRun{Run: schema.MakeEntryID(c.at, 1, 1)}
		if want := max(c.want, 0); r.Period() != want { // ids begin at the epoch
			t.Errorf("Period of a run due at %v = %d, want %d", c.at, r.Period(), want)
		}
	}
}
