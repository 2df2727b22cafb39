package schema

import (
	"bytes"
	"errors"
	"testing"
)

// TestSealedRoundTrip: what Append writes ParseSealed reads, and any cut of it is refused.
func TestSealedRoundTrip(t *testing.T) {
	clear := 10
	want := Sealed{Key: "k1", Nonce: bytes.Repeat([]byte{1}, sealedNonce), Text: bytes.Repeat([]byte{2}, clear+sealedTag)}
	b := want.Append(nil)
	got, err := ParseSealed(b)
	if err != nil || got.Key != want.Key || !bytes.Equal(got.Nonce, want.Nonce) || !bytes.Equal(got.Text, want.Text) {
		t.Errorf("ParseSealed = %+v, %v; want %+v", got, err, want)
	}
	if n := ClearSize(b); !IsSealed(b) || n != clear {
		t.Errorf("IsSealed = %t, ClearSize = %d; want true, %d", IsSealed(b), n, clear)
	}
	for n := range len(b) - clear {
		if _, err := ParseSealed(b[:n]); !errors.Is(err, ErrSealed) || !errors.Is(err, ErrNotUnderstood) {
			t.Errorf("ParseSealed of %d bytes = %v, want ErrSealed, which is ErrNotUnderstood", n, err)
		}
	}
	for _, plain := range []string{"", `{"a":1}`, "\x00", "text"} {
		if IsSealed([]byte(plain)) || ClearSize([]byte(plain)) != len(plain) {
			t.Errorf("%q counts as sealed, or has %d bytes", plain, ClearSize([]byte(plain)))
		}
	}
}

// TestEntryOfASealedPayload: an entry that is made of a sealed payload, such as a retry, states the
// size of the clear one. So the same payload lies in the row, or outside it, whether it is sealed.
func TestEntryOfASealedPayload(t *testing.T) {
	for _, size := range []int{1, InlinePayload, InlinePayload + 1} {
		sealed := Sealed{Key: "k1", Nonce: make([]byte, sealedNonce), Text: make([]byte, size+sealedTag)}.Append(nil)
		e, err := NewEntry(EntryID{1}, Spec{Tenant: "t"}, sealed, MakeEntryID(EntryID{1}.Time(), 0, 0).Time())
		if _, large := e.LargePayload(); err != nil || e.Spec.PayloadSize != size || large != (size > InlinePayload) {
			t.Errorf("a sealed payload of %d bytes: payload_size %d, large %t, %v", size, e.Spec.PayloadSize, large, err)
		}
	}
}
