package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// same decodes text by the memo and by encoding/json, several times, so that the last ones are
// remembered.
func same(t interface{ Fatalf(string, ...any) }, m *memo, text string) {
	var want Spec
	wantErr := json.Unmarshal([]byte(text), &want)
	for try := range 4 {
		got, err := m.decode([]byte(text))
		if (err != nil) != (wantErr != nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("decode(%s), try %d = %+v, %v; json.Unmarshal says %+v, %v", text, try, got, err, want, wantErr)
		}
	}
}

// TestMemoDecodesAsJSON: whatever the text, and whatever was decoded before, the memo says what
// encoding/json says.
func TestMemoDecodesAsJSON(t *testing.T) {
	const nominal, other = "2026-11-21T10:00:00Z", "2027-01-02T03:04:05.678Z"
	for _, c := range []struct{ name, text string }{
		{"as it is written", `{"tenant":"a","nominal":"N","accepted":12,"task":"t"}`},
		{"nothing after", `{"tenant":"a","nominal":"N","accepted":12}`},
		{"space", `{"tenant":"a", "nominal": "N", "accepted": 12}`},
		{"another order", `{"accepted":12,"nominal":"N","tenant":"a"}`},
		{"the name in a string", `{"tenant":"\"nominal\":\"N\",\"accepted\":12","nominal":"N","accepted":12}`},
		{"the name in labels", `{"tenant":"a","labels":{"nominal":"N","accepted":"12"},"nominal":"N","accepted":12}`},
		{"the name in what nobody knows", `{"tenant":"a","x":{"nominal":"N","accepted":12},"nominal":"N","accepted":13}`},
		{"twice, the second counts", `{"tenant":"a","nominal":"N","accepted":12,"nominal":"2001-01-01T00:00:00Z","accepted":7}`},
		{"no number", `{"tenant":"a","nominal":"N","accepted":012}`},
		{"a fraction", `{"tenant":"a","nominal":"N","accepted":1.5}`},
		{"an exponent", `{"tenant":"a","nominal":"N","accepted":1e3}`},
		{"negative", `{"tenant":"a","nominal":"N","accepted":-3}`},
		{"zero", `{"tenant":"a","nominal":"N","accepted":0}`},
		{"too large", `{"tenant":"a","nominal":"N","accepted":99999999999999999999}`},
		{"an offset", `{"tenant":"a","nominal":"2026-11-21T10:00:00+01:00","accepted":12}`},
		{"not a time", `{"tenant":"a","nominal":"yesterday","accepted":12}`},
		{"an escape in the time", `{"tenant":"a","nominal":"2026\u002d11-21T10:00:00Z","accepted":12}`},
		{"no end", `{"tenant":"a","nominal":"N","accepted":12`},
		{"rubbish after", `{"tenant":"a","nominal":"N","accepted":12}}`},
		{"work", `{"tenant":"a","nominal":"N","accepted":12,"work":{"http":{"url":"http://a/{\\\"}"}},"labels":{"x":"y"}}`},
		{"work and nothing after", `{"tenant":"a","nominal":"N","accepted":12,"work":{"nats":{"subject":"s"}}}`},
		{"work twice", `{"tenant":"a","nominal":"N","accepted":12,"work":{"nats":{"subject":"s"}},"work":{"http":{"url":"u"}}}`},
		{"work in labels", `{"tenant":"a","nominal":"N","accepted":12,"labels":{"a":"b","work":"{"}}`},
		{"work that is none", `{"tenant":"a","nominal":"N","accepted":12,"work":"x"}`},
		{"work null", `{"tenant":"a","nominal":"N","accepted":12,"work":null}`},
		{"work with a fault", `{"tenant":"a","nominal":"N","accepted":12,"work":{"http":7}}`},
		{"work without end", `{"tenant":"a","nominal":"N","accepted":12,"work":{"http":{"url":"x"}`},
		{"work that never ends its string", `{"tenant":"a","nominal":"N","accepted":12,"work":{"http":{"url":"x}}}`},
		{"empty", ``},
		{"not an object", `["nominal"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &memo{seed: specs.seed}
			for _, at := range []string{nominal, other, nominal} {
				same(t, m, strings.ReplaceAll(c.text, "N", at))
			}
		})
	}
}

// TestMemoKeepsWhatCameTwice: a spec that comes again is not decoded again, and copies are apart in
// their two values.
func TestMemoKeepsWhatCameTwice(t *testing.T) {
	m := &memo{seed: specs.seed}
	text := func(ms int) []byte {
		e, err := NewEntry(EntryID{}, Spec{
			Tenant: "a", Nominal: time.UnixMilli(int64(ms)), Accepted: int64(ms) * 1000, Misfire: &Misfire{Policy: "skip"},
			Work: &Work{NATS: &NATSTarget{Subject: strings.Repeat("x", ms)}},
		}, nil, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return e.Text()
	}
	for ms := range 3 {
		if _, err := m.decode(text(ms)); err != nil {
			t.Fatal(err)
		}
	}
	a, _ := m.decode(text(3))
	b, _ := m.decode(text(4))
	if a.Misfire != b.Misfire || a.Misfire == nil {
		t.Errorf("two specs that differ in their times have policies of their own (%p, %p), want one that was remembered", a.Misfire, b.Misfire)
	}
	if a.Work.NATS.Subject != "xxx" || b.Work.NATS.Subject != "xxxx" {
		t.Errorf("decode = work %+v and %+v, want that of each text", a.Work.NATS, b.Work.NATS)
	}
	if a.Accepted != 3000 || b.Accepted != 4000 || a.Nominal.UnixMilli() != 3 || b.Nominal.UnixMilli() != 4 {
		t.Errorf("decode = accepted %d and %d, nominal %v and %v; want those of each text", a.Accepted, b.Accepted, a.Nominal, b.Nominal)
	}
}

// TestMemoIsRight with specs at random, many of which share a slot.
func TestMemoIsRight(t *testing.T) {
	m := &memo{seed: specs.seed}
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{
			Tenant: rapid.SampledFrom([]string{"a", "b{", `"nominal":"`, ""}).Draw(t, "tenant"),
			Task:   rapid.SampledFrom([]string{"", "t", "u"}).Draw(t, "task"),
			Labels: rapid.SampledFrom([]map[string]string{nil, {"nominal": "x"}, {"accepted": "1"}}).Draw(t, "labels"),
			// Whole ms, as NewEntry has them.
			Nominal:  time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "nominal")).UTC(),
			Accepted: rapid.Int64Range(-5, 4e15).Draw(t, "accepted"),
			Attempt:  rapid.IntRange(0, 2).Draw(t, "attempt"),
			Work:     rapid.SampledFrom([]*Work{nil, {NATS: &NATSTarget{Subject: `a"{}\`}}, {HTTP: &HTTPTarget{URL: "http://x"}}}).Draw(t, "work"),
		}
		e, err := NewEntry(EntryID{}, spec, nil, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		same(t, m, string(e.Text()))
	})
}
