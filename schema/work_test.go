package schema_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon.dev/carillon/schema"
)

func TestDurationInJSON(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       time.Duration
		fault      bool
	}{
		{name: "minutes and seconds", text: `"1m30s"`, want: 90 * time.Second},
		{name: "zero", text: `"0s"`},
		{name: "fractions", text: `"1.5h"`, want: 90 * time.Minute},
		{name: "negative", text: `"-5ms"`, want: -5 * time.Millisecond},
		{name: "days", text: `"1d"`, fault: true},
		{name: "a number", text: `90`, fault: true},
		{name: "no unit", text: `"90"`, fault: true},
		{name: "empty", text: `""`, fault: true},
		{name: "words", text: `"soon"`, fault: true},
		{name: "too long for a duration", text: `"9999999h"`, fault: true},
	} {
		var got schema.Duration
		err := json.Unmarshal([]byte(c.text), &got)
		if (err != nil) != c.fault || got.Std() != c.want {
			t.Errorf("%s: %s = %v, %v; want %v, a fault: %v", c.name, c.text, got, err, c.want, c.fault)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		want := schema.Duration(rapid.Int64().Draw(t, "ns"))
		text, err := json.Marshal(want)
		var got schema.Duration
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil || got != want {
			t.Errorf("%d ns through %s = %d ns, %v", int64(want), text, int64(got), err)
		}
	})
}

// A faulty duration is quoted, but not at whatever length it came in.
func TestDurationFaultIsShort(t *testing.T) {
	var d schema.Duration
	err := d.UnmarshalText([]byte(strings.Repeat("x", 10_000)))
	if err == nil || len(err.Error()) > 200 || !strings.Contains(err.Error(), "1m30s") {
		t.Errorf("UnmarshalText of 10,000 letters = %.300v, want a short fault with an example", err)
	}
}

// The defaults are those of the API.
func TestInForce(t *testing.T) {
	defaults := &schema.Retry{
		MaxAttempts: 5, Initial: schema.Duration(time.Second), Factor: 2, Max: schema.Duration(10 * time.Minute), Jitter: "full",
	}
	once := *defaults
	once.MaxAttempts = 1
	for _, c := range []struct {
		name     string
		in, want schema.Work
	}{
		{
			name: "nothing stated",
			in:   schema.Work{HTTP: &schema.HTTPTarget{URL: "u"}},
			want: schema.Work{
				HTTP:    &schema.HTTPTarget{Method: "POST", URL: "u", Body: "payload"},
				Timeout: schema.Duration(30 * time.Second), Retry: defaults, Guarantee: schema.AtLeastOnce,
			},
		},
		{
			name: "everything stated",
			in: schema.Work{
				HTTP: &schema.HTTPTarget{Method: "GET", URL: "u", Body: "none"}, Timeout: 1, Guarantee: schema.EffectivelyOnce,
				Retry: &schema.Retry{MaxAttempts: 9, Initial: 2, Factor: 3, Max: 4, Jitter: "none"},
			},
			want: schema.Work{
				HTTP: &schema.HTTPTarget{Method: "GET", URL: "u", Body: "none"}, Timeout: 1, Guarantee: schema.EffectivelyOnce,
				Retry: &schema.Retry{MaxAttempts: 9, Initial: 2, Factor: 3, Max: 4, Jitter: "none"},
			},
		},
		{
			name: "part of a retry",
			in:   schema.Work{NATS: &schema.NATSTarget{Subject: "s"}, Retry: &schema.Retry{MaxAttempts: 2}},
			want: schema.Work{
				NATS: &schema.NATSTarget{Subject: "s"}, Timeout: schema.DefaultTimeout, Guarantee: schema.AtLeastOnce,
				Retry: &schema.Retry{MaxAttempts: 2, Initial: defaults.Initial, Factor: 2, Max: defaults.Max, Jitter: "full"},
			},
		},
		{
			name: "at most once",
			in:   schema.Work{Script: &schema.ScriptTarget{Command: "c"}, Guarantee: schema.AtMostOnce},
			want: schema.Work{
				Script: &schema.ScriptTarget{Command: "c"}, Timeout: schema.DefaultTimeout, Guarantee: schema.AtMostOnce, Retry: &once,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, err := json.Marshal(c.in)
			if err != nil {
				t.Fatal(err)
			}
			got := c.in.InForce()
			if !reflect.DeepEqual(got, c.want) {
				gotText, _ := json.Marshal(got)
				wantText, _ := json.Marshal(c.want)
				t.Errorf("InForce = %s\nwant %s", gotText, wantText)
			}
			if again := got.InForce(); !reflect.DeepEqual(again, got) {
				t.Errorf("InForce twice = %+v, once %+v", again, got)
			}
			got.Retry.MaxAttempts = 77
			if got.HTTP != nil {
				got.HTTP.Method = "changed"
			}
			after, err := json.Marshal(c.in)
			if err != nil || string(after) != string(before) {
				t.Errorf("a change of what InForce answered changed its input from %s to %s", before, after)
			}
		})
	}
	if schema.DefaultRetry != *defaults {
		t.Errorf("DefaultRetry = %+v, want %+v, untouched", schema.DefaultRetry, *defaults)
	}
}

func TestZeroValuesHaveDefaults(t *testing.T) {
	if got := schema.Priority("").Or(); got != schema.Normal {
		t.Errorf("Priority.Or of none = %q, want normal", got)
	}
	if got := schema.Guarantee("").Or(); got != schema.AtLeastOnce {
		t.Errorf("Guarantee.Or of none = %q, want at_least_once", got)
	}
	if schema.Low.Or() != schema.Low || schema.AtMostOnce.Or() != schema.AtMostOnce {
		t.Error("Or changes what was stated")
	}
}

// What was not stated takes no bytes of a row.
func TestWorkHoldsOnlyWhatWasStated(t *testing.T) {
	text, err := json.Marshal(schema.Work{NATS: &schema.NATSTarget{Subject: "s"}})
	if want := `{"nats":{"subject":"s"}}`; err != nil || string(text) != want {
		t.Errorf("Work in JSON = %s, %v; want %s", text, err, want)
	}
}

// A run's secrets are those of its call and the URL's, each once.
func TestSecretsOfACall(t *testing.T) {
	bearer := &schema.HTTPAuth{Bearer: &schema.BearerAuth{Secret: "token"}}
	for want, h := range map[string]*schema.HTTPTarget{
		"":          {URL: "https://x.test/"},
		"token":     {URL: "https://x.test/", Auth: bearer},
		"url":       {URLSecret: "url"},
		"token,url": {URLSecret: "url", Auth: bearer},
		"both":      {URLSecret: "both", Auth: &schema.HTTPAuth{Header: &schema.HeaderAuth{Name: "x", Secret: "both"}}},
		"key,part":  {URL: "https://x.test/", Auth: &schema.HTTPAuth{SigV4: &schema.SigV4Auth{Secret: "key", SessionTokenSecret: "part"}}},
	} {
		if got := strings.Join((&schema.Work{HTTP: h}).Secrets(), ","); got != want {
			t.Errorf("Secrets of %+v = %q, want %q", h, got, want)
		}
	}
}
