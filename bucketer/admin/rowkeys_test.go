package admin

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"carillon.dev/carillon/schema"
)

func TestRowsOpenAtTheirPlaceAlone(t *testing.T) {
	text := []byte(`{"to":"somebody"}`)
	before := keyring(t, sealKey("k1", 1))
	sealed, err := before.SealRow(text, "here")
	if err != nil || !schema.IsSealed(sealed) || bytes.Contains(sealed, text[:8]) || schema.ClearSize(sealed) != len(text) {
		t.Fatalf("SealRow = %q, %v; want it sealed", sealed, err)
	}
	// Rows that are made twice are the same row; other places and texts have other bytes
	// throughout.
	if again, err := before.SealRow(text, "here"); err != nil || !bytes.Equal(again, sealed) {
		t.Errorf("SealRow, again = %q, %v; want the same bytes", again, err)
	}
	head := len(sealed) - len(text) - 16 - 12
	if there, err := before.SealRow(text, "there"); err != nil || bytes.Equal(there[head:head+12], sealed[head:head+12]) {
		t.Errorf("SealRow for another place: the same nonce (%v)", err)
	}
	after := keyring(t, sealKey("k2", 2), sealKey("k1", 1))
	if got, err := after.OpenRow(sealed, "here"); err != nil || !bytes.Equal(got, text) {
		t.Errorf("OpenRow with the old key second = %q, %v; want the text", got, err)
	}
	newer, err := after.SealRow(text, "here")
	if s, perr := schema.ParseSealed(newer); err != nil || perr != nil || s.Key != "k2" || after.FirstKey() != "k2" {
		t.Errorf("SealRow with the new key first: key %q, %v, %v; want k2", s.Key, err, perr)
	}
	for name, c := range map[string]struct {
		ring   *Keyring
		sealed []byte
		place  string
	}{
		"another place":           {before, sealed, "there"},
		"a key that is gone":      {keyring(t, sealKey("k2", 2)), sealed, "here"},
		"another key of its name": {keyring(t, sealKey("k1", 3)), sealed, "here"},
		"no key at all":           {new(Keyring), sealed, "here"},
		"cut":                     {before, sealed[:len(sealed)-1], "here"},
		"nothing":                 {before, nil, "here"},
	} {
		if got, err := c.ring.OpenRow(c.sealed, c.place); !errors.Is(err, schema.ErrSealed) {
			t.Errorf("%s: OpenRow = %q, %v; want ErrSealed", name, got, err)
		}
	}
	for i := range sealed {
		b := slices.Clone(sealed)
		b[i] ^= 1
		if got, err := before.OpenRow(b, "here"); !errors.Is(err, schema.ErrSealed) {
			t.Errorf("with byte %d changed OpenRow = %q, %v; want ErrSealed", i, got, err)
		}
	}
	if _, err := new(Keyring).SealRow(text, "here"); !errors.Is(err, ErrNoSeal) {
		t.Errorf("SealRow without a key = %v, want ErrNoSeal", err)
	}
}

func BenchmarkSealRow(b *testing.B) {
	r, err := ParseKeyring([]string{sealKey("k1", 1)})
	if err != nil {
		b.Fatal(err)
	}
	text := bytes.Repeat([]byte("x"), 512)
	for b.Loop() {
		sealed, err := r.SealRow(text, "entry\x0001a21c72-91fa-8011-ab7c-4d1e90a35f68")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := r.OpenRow(sealed, "entry\x0001a21c72-91fa-8011-ab7c-4d1e90a35f68"); err != nil {
			b.Fatal(err)
		}
	}
}
