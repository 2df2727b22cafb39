package queue_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

func TestHintsRoundTripInBoundedMessages(t *testing.T) {
	var sent []schema.Entry
	for n := range 1000 {
		e, err := schema.NewEntry(schema.MakeEntryID(time.Now(), 1, uint64(n)), schema.Spec{Tenant: "acme"}, make([]byte, n%schema.InlinePayload), time.Time{})
		if err != nil {
			t.Fatalf("NewEntry: %v", err)
		}
		sent = append(sent, e)
	}
	// One that fits no envelope is left out, and the ones around it arrive.
	huge := schema.LoadEntry(schema.MakeEntryID(time.Now(), 1, 5000), make([]byte, queue.MaxEnvelope), nil, schema.Marks{})
	var got []schema.Entry
	messages := 0
	for wire := range queue.EncodeHints(slices.Insert(slices.Clone(sent), 500, huge)) {
		messages++
		if len(wire) > 256<<10 {
			t.Errorf("a message has %d bytes, want at most 256 KiB", len(wire))
		}
		es, err := queue.ParseHints(wire)
		if err != nil {
			t.Fatalf("ParseHints: %v", err)
		}
		got = append(got, es...)
	}
	if messages < 2 {
		t.Errorf("%d messages, want several", messages)
	}
	same := func(a, b schema.Entry) bool {
		return a.ID == b.ID && bytes.Equal(a.Text(), b.Text()) && bytes.Equal(a.Payload, b.Payload)
	}
	if !slices.EqualFunc(got, sent, same) {
		t.Errorf("%d hints arrived of %d, or others than were sent", len(got), len(sent))
	}
}

func TestHintsBeforeAFaultCount(t *testing.T) {
	env := sample(t)
	es, err := queue.ParseHints(append(env.Append(nil), 9, 9, 9))
	if !errors.Is(err, queue.ErrMalformed) || len(es) != 1 {
		t.Errorf("ParseHints = %d entries, %v, want 1 and ErrMalformed", len(es), err)
	}
}

func TestNoticesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) schema.Notice {
			return schema.Notice{
				Entry:     schema.MakeEntryID(time.Now(), 3, rapid.Uint64().Draw(t, "entry")),
				Run:       schema.MakeEntryID(time.Now(), 3, rapid.Uint64().Draw(t, "run")),
				Attempt:   rapid.IntRange(0, 1<<31-1).Draw(t, "attempt"),
				Succeeded: rapid.Bool().Draw(t, "succeeded"),
			}
		}), 0, 50).Draw(t, "notices")
		var got []schema.Notice
		for wire := range queue.EncodeNotices(sent) {
			ns, err := queue.ParseNotices(wire)
			if err != nil {
				t.Fatalf("ParseNotices: %v", err)
			}
			got = append(got, ns...)
			for n := 1; n < len(wire); n++ {
				if _, err := queue.ParseNotices(wire[:n]); (n-1)%36 != 0 && !errors.Is(err, queue.ErrMalformed) {
					t.Errorf("ParseNotices of %d of %d bytes = %v, want ErrMalformed", n, len(wire), err)
				}
			}
		}
		if !slices.Equal(got, sent) {
			t.Errorf("got %v, want %v", got, sent)
		}
	})
	for _, b := range [][]byte{nil, {2}, {0}} {
		if _, err := queue.ParseNotices(b); !errors.Is(err, queue.ErrMalformed) {
			t.Errorf("ParseNotices(%v) = %v, want ErrMalformed", b, err)
		}
	}
}

func TestNoticesComeInBoundedMessages(t *testing.T) {
	const count = 20_000
	got, messages := 0, 0
	for wire := range queue.EncodeNotices(make([]schema.Notice, count)) {
		messages++
		if len(wire) > 256<<10 {
			t.Errorf("a message has %d bytes, want at most 256 KiB", len(wire))
		}
		ns, err := queue.ParseNotices(wire)
		if err != nil {
			t.Fatalf("ParseNotices: %v", err)
		}
		got += len(ns)
	}
	if got != count || messages < 2 {
		t.Errorf("%d notices in %d messages, want %d in several", got, messages, count)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ name, got, want string }{
		{"stream", queue.Names("").Stream(3), "carillon_runs_3"},
		{"run", queue.Names("").Run(3, schema.Critical), "carillon.run.3.critical"},
		{"run without priority", queue.Names("").Run(0, ""), "carillon.run.0.normal"},
		{"runs", queue.DefaultNames.Runs(3), "carillon.run.3.>"},
		{"near", queue.DefaultNames.Near(63), "carillon.near.63"},
		{"done", queue.DefaultNames.Done(63), "carillon.done.63"},
		{"signal", queue.DefaultNames.Signal(schema.TopicCancel), "carillon.signal.cancel"},
		{"another prefix", queue.Names("eu_1").Stream(0), "eu_1_runs_0"},
		{"consumer", queue.ConsumerName(""), "executors_normal"},
		{"run of no pool", queue.Names("").RunOf(3, schema.Critical, ""), "carillon.run.3.critical"},
		{"run of a pool", queue.Names("").RunOf(3, "", "gpu=true"), "carillon.run.3.normal.d1959c2518689f8b"},
		{"consumer of no pool", queue.ConsumerOf("", ""), "executors_normal"},
		{"consumer of a pool", queue.ConsumerOf(schema.Low, "gpu=true"), "executors_low_d1959c2518689f8b"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, c.got, c.want)
		}
	}
	for _, bad := range []queue.Names{"a.b", "a b", "a*", "A", "ä"} {
		if bad.Validate() == nil {
			t.Errorf("Names(%q).Validate() = nil, want an error", bad)
		}
	}
	if err := queue.Names("eu_1").Validate(); err != nil {
		t.Errorf("Names(eu_1).Validate() = %v, want nil", err)
	}
}
