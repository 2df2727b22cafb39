package queue_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// entries draws entries as they come from a store or from intake.
func entries() *rapid.Generator[schema.Entry] {
	return rapid.Custom(func(t *rapid.T) schema.Entry {
		id := schema.MakeEntryID(
			time.UnixMilli(rapid.Int64Range(0, 1<<48-1).Draw(t, "ms")),
			schema.Shard(rapid.IntRange(0, schema.MaxShards-1).Draw(t, "shard")),
			rapid.Uint64().Draw(t, "hash"))
		payload := rapid.SliceOfN(rapid.Byte(), 0, schema.InlinePayload).Draw(t, "payload")
		if rapid.Bool().Draw(t, "of a newer version") {
			return schema.LoadEntry(id, []byte(`{"tenant":"acme", "unheard_of": {"a":1},"nominal":"2026-01-01T00:00:00Z"}`), payload, schema.Marks{})
		}
		e, err := schema.NewEntry(id, schema.Spec{
			Tenant:   rapid.StringN(0, 20, -1).Draw(t, "tenant"),
			Priority: rapid.SampledFrom(schema.Priorities).Draw(t, "priority"),
			Attempt:  rapid.IntRange(0, 5).Draw(t, "attempt"),
			Labels:   rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "labels"),
		}, payload, time.Now())
		if err != nil {
			t.Fatalf("NewEntry: %v", err)
		}
		return e
	})
}

func envelopes() *rapid.Generator[queue.Envelope] {
	return rapid.Custom(func(t *rapid.T) queue.Envelope {
		e := queue.Envelope{
			Entry:      entries().Draw(t, "entry"),
			Redispatch: rapid.Bool().Draw(t, "redispatch"),
			Dispatch:   rapid.StringN(0, 30, 200).Draw(t, "dispatch"),
		}
		if rapid.Bool().Draw(t, "checked") {
			e.CheckedAt = time.UnixMicro(rapid.Int64Range(0, 1<<52).Draw(t, "checked at")).UTC()
		}
		if rapid.Bool().Draw(t, "in an epoch") {
			e.Epoch = rapid.Int64().Draw(t, "epoch")
		}
		return e
	})
}

func sameEnvelope(got, want queue.Envelope) error {
	switch {
	case got.Entry.ID != want.Entry.ID:
		return fmt.Errorf("id %s, want %s", got.Entry.ID, want.Entry.ID)
	case !bytes.Equal(got.Entry.Text(), want.Entry.Text()):
		return fmt.Errorf("text %q, want %q", got.Entry.Text(), want.Entry.Text())
	case !bytes.Equal(got.Entry.Payload, want.Entry.Payload):
		return fmt.Errorf("payload %x, want %x", got.Entry.Payload, want.Entry.Payload)
	case !got.CheckedAt.Equal(want.CheckedAt) || got.CheckedAt.IsZero() != want.CheckedAt.IsZero():
		return fmt.Errorf("checked at %v, want %v", got.CheckedAt, want.CheckedAt)
	case got.Redispatch != want.Redispatch || got.Dispatch != want.Dispatch:
		return fmt.Errorf("redispatch %v %q, want %v %q", got.Redispatch, got.Dispatch, want.Redispatch, want.Dispatch)
	case got.Epoch != want.Epoch:
		return fmt.Errorf("epoch %d, want %d", got.Epoch, want.Epoch)
	case got.MessageID() != want.MessageID():
		return fmt.Errorf("message id %s, want %s", got.MessageID(), want.MessageID())
	}
	return nil
}

func TestEnvelopeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(envelopes(), 1, 4).Draw(t, "envelopes")
		var wire []byte
		for i := range all {
			one, err := all[i].Encode()
			if err != nil {
				t.Fatalf("Encode: %v", err)
			}
			if len(one) != cap(one) {
				t.Errorf("Encode took %d bytes for %d", cap(one), len(one))
			}
			wire = append(wire, one...)
		}
		for i := range all {
			got, rest, err := queue.Parse(wire)
			if err != nil {
				t.Fatalf("Parse of envelope %d: %v", i, err)
			}
			if err := sameEnvelope(got, all[i]); err != nil {
				t.Errorf("envelope %d: %v", i, err)
			}
			wire = rest
		}
		if len(wire) > 0 {
			t.Errorf("Parse left %d bytes", len(wire))
		}
	})
}

// sample is an envelope with everything in it.
func sample(t testing.TB) queue.Envelope {
	t.Helper()
	e, err := schema.NewEntry(schema.MakeEntryID(time.UnixMilli(1_767_225_600_000), 7, 42), schema.Spec{
		Tenant: "acme", Nominal: time.UnixMilli(1_767_225_600_000), Accepted: 1_767_225_000_000_000,
		Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://127.0.0.1:9/work"}},
	}, []byte("a payload"), time.Time{})
	if err != nil {
		t.Fatalf("NewEntry: %v", err)
	}
	return queue.Envelope{Entry: e, CheckedAt: time.UnixMicro(1_767_225_599_000_001).UTC(), Redispatch: true, Dispatch: "d1.7"}
}

// TestWithoutRegionsTheWireFormIsAsBefore: nodes of the version before read and write it.
func TestWithoutRegionsTheWireFormIsAsBefore(t *testing.T) {
	env := sample(t)
	want := append([]byte{1, 1}, env.Entry.ID[:]...)
	want = binary.BigEndian.AppendUint64(want, 1_767_225_599_000_001)
	want = append(binary.BigEndian.AppendUint16(want, 4), "d1.7"...)
	for _, block := range [][]byte{env.Entry.Text(), []byte("a payload")} {
		want = append(binary.BigEndian.AppendUint32(want, uint32(len(block))), block...) // #nosec G115 -- small
	}
	if got := env.Append(nil); !bytes.Equal(got, want) {
		t.Errorf("Append = %x,\nwant %x", got, want)
	}
}

func TestParseRefusesWhatIsNotWhole(t *testing.T) {
	env := sample(t)
	for _, env.Epoch = range []int64{7, 0} {
		wire := env.Append(nil)
		for n := range wire {
			if _, _, err := queue.Parse(wire[:n]); !errors.Is(err, queue.ErrMalformed) {
				t.Errorf("Parse of the first %d of %d bytes = %v, want ErrMalformed", n, len(wire), err)
			}
		}
	}
	wire := env.Append(nil)
	for _, version := range []byte{0, 2, 255} {
		other := slices.Clone(wire)
		other[0] = version
		if _, _, err := queue.Parse(other); !errors.Is(err, queue.ErrMalformed) {
			t.Errorf("Parse of version %d = %v, want ErrMalformed", version, err)
		}
	}
	long := slices.Clone(wire)
	binary.BigEndian.PutUint32(long[26+2+len(env.Dispatch):], 1<<32-1) // the length of the text
	if _, _, err := queue.Parse(long); !errors.Is(err, queue.ErrMalformed) {
		t.Errorf("Parse of a text of 4 GiB = %v, want ErrMalformed", err)
	}
}

func TestParseKeepsAnEntryWithAFault(t *testing.T) {
	env := queue.Envelope{Entry: schema.LoadEntry(schema.MakeEntryID(time.Now(), 1, 2), []byte("not JSON"), nil, schema.Marks{})}
	got, _, err := queue.Parse(env.Append(nil))
	if err != nil || got.Entry.Fault == nil || got.Entry.ID != env.Entry.ID {
		t.Errorf("Parse = %+v, %v, want an entry with a fault", got.Entry, err)
	}
}

func TestEncodeLeavesLargePayloadsOut(t *testing.T) {
	env := sample(t)
	for _, c := range []struct{ size, want int }{{0, 0}, {schema.InlinePayload, schema.InlinePayload}, {schema.InlinePayload + 1, 0}} {
		env.Entry.Payload = make([]byte, c.size)
		wire, err := env.Encode()
		if err != nil {
			t.Fatalf("Encode with %d bytes of payload: %v", c.size, err)
		}
		got, _, err := queue.Parse(wire)
		if err != nil || len(got.Entry.Payload) != c.want {
			t.Errorf("a payload of %d bytes arrives as %d, %v, want %d", c.size, len(got.Entry.Payload), err, c.want)
		}
	}
}

func TestEncodeRefusesWhatIsTooLarge(t *testing.T) {
	env := sample(t)
	env.Dispatch = strings.Repeat("d", 257)
	if _, err := env.Encode(); !errors.Is(err, queue.ErrTooLarge) {
		t.Errorf("Encode with a dispatch of 257 bytes = %v, want ErrTooLarge", err)
	}
	env.Dispatch = ""
	env.Entry = schema.LoadEntry(env.Entry.ID, make([]byte, queue.MaxEnvelope), nil, schema.Marks{})
	if _, err := env.Encode(); !errors.Is(err, queue.ErrTooLarge) {
		t.Errorf("Encode with a text of %d bytes = %v, want ErrTooLarge", queue.MaxEnvelope, err)
	}
}

func TestMessageID(t *testing.T) {
	env := sample(t)
	first := env
	first.Redispatch, first.Dispatch = false, ""
	later := first
	later.CheckedAt = later.CheckedAt.Add(time.Second)
	again := env
	again.Dispatch = "d1.8"
	second := first
	second.Entry.Spec.Attempt = 2
	if first.MessageID() != later.MessageID() {
		t.Errorf("two first publications have the ids %s and %s, want one", first.MessageID(), later.MessageID())
	}
	epoch, next := first, first
	epoch.Epoch, next.Epoch = 1, 2
	ids := map[string]bool{epoch.MessageID(): true, next.MessageID(): true, first.MessageID(): true, env.MessageID(): true, again.MessageID(): true, second.MessageID(): true}
	if len(ids) != 6 {
		t.Errorf("first publications in three epochs, two redispatches and another attempt share ids: %v", ids)
	}
}

func FuzzParse(f *testing.F) {
	env := sample(f)
	f.Add(env.Append(nil))
	f.Add([]byte{1})
	f.Add(env.Append(env.Append(nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, rest, err := queue.Parse(b)
		if err != nil {
			if !errors.Is(err, queue.ErrMalformed) {
				t.Errorf("Parse = %v, want ErrMalformed", err)
			}
			return
		}
		if len(got.Entry.Payload) > schema.InlinePayload {
			return // is never made
		}
		again := got.Append(nil)
		want := b[:len(b)-len(rest)]
		want = slices.Clone(want)
		want[1] &= 1 // flags unknown here
		if !bytes.Equal(again, want) {
			t.Errorf("Parse and Append gave %x of %x", again, want)
		}
	})
}

func TestAppendAllocatesNothing(t *testing.T) {
	env := sample(t)
	b := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { b = env.Append(b[:0]) }); n > 0 {
		t.Errorf("Append into room enough allocates %v times, want 0", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = env.Encode() }); n > 1 {
		t.Errorf("Encode allocates %v times, want 1", n)
	}
}

func BenchmarkEncode(b *testing.B) {
	env := sample(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := env.Encode(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	env := sample(b)
	wire := env.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := queue.Parse(wire); err != nil {
			b.Fatal(err)
		}
	}
}
