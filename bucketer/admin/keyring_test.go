package admin

import (
	"bytes"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer"
)

// sealKey is a key of an operator.
func sealKey(name string, fill byte) string {
	return name + ":" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, sealBytes))
}

func keyring(t *testing.T, keys ...string) *Keyring {
	t.Helper()
	r, err := ParseKeyring(keys)
	if err != nil {
		t.Fatalf("ParseKeyring: %v", err)
	}
	return r
}

func TestKeyringOpensWhatItSealed(t *testing.T) {
	secret := []byte("s3cret")
	before := keyring(t, sealKey("k1", 1))
	with, sealed, err := before.Seal(secret, "here")
	if err != nil || with != "k1" || bytes.Contains(sealed, secret) {
		t.Fatalf("Seal: got %q, %q, %v; want it sealed with k1", with, sealed, err)
	}
	if _, again, err := before.Seal(secret, "here"); err != nil || bytes.Equal(again, sealed) {
		t.Errorf("Seal, again: got the same bytes (%v), want another nonce", err)
	}
	after := keyring(t, sealKey("k2", 2), sealKey("k1", 1))
	if got, err := after.Open(with, sealed, "here"); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("Open with the old key second: got %q, %v; want the secret", got, err)
	}
	if with, _, err := after.Seal(secret, "here"); err != nil || with != "k2" {
		t.Errorf("Seal with the new key first: got %s, %v; want k2", with, err)
	}
	flip := func(i int) []byte {
		b := slices.Clone(sealed)
		b[i] ^= 1
		return b
	}
	for name, c := range map[string]struct {
		ring   *Keyring
		with   string
		sealed []byte
		place  string
	}{
		"another place":           {before, "k1", sealed, "there"},
		"another key's name":      {after, "k2", sealed, "here"},
		"a key that is gone":      {keyring(t, sealKey("k2", 2)), "k1", sealed, "here"},
		"another key of its name": {keyring(t, sealKey("k1", 3)), "k1", sealed, "here"},
		"a bit of the nonce":      {before, "k1", flip(0), "here"},
		"a bit of the secret":     {before, "k1", flip(13), "here"},
		"a bit of the tag":        {before, "k1", flip(len(sealed) - 1), "here"},
		"cut":                     {before, "k1", sealed[:len(sealed)-1], "here"},
		"shorter than a nonce":    {before, "k1", sealed[:5], "here"},
		"nothing":                 {before, "k1", nil, "here"},
		"no keys at all":          {nil, "k1", sealed, "here"},
	} {
		if got, err := c.ring.Open(c.with, c.sealed, c.place); !errors.Is(err, bucketer.ErrSealed) {
			t.Errorf("%s: Open: got %q, %v; want ErrSealed", name, got, err)
		}
	}
	for name, none := range map[string]*Keyring{"nil": nil, "zero": {}, "of no keys": keyring(t)} {
		if _, _, err := none.Seal(secret, "here"); !errors.Is(err, ErrNoSeal) {
			t.Errorf("Seal by a keyring that is %s: got %v, want ErrNoSeal", name, err)
		}
	}
}

func TestParseKeyringNamesEveryFaultAndNoKey(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte("s3cret-s3cret-s3cret-s3cret"))
	_, err := ParseKeyring([]string{sealKey("k1", 1), secret, "K:" + secret, "k3:" + secret, "k4:????", sealKey("k1", 2)})
	for _, want := range []string{"key 2: want a name", "key 3: want a name", "key 4 (k3): is not the base64 of 32 bytes", "key 5 (k4)", "key 6: the name k1 is there twice"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseKeyring: got %v, want it to name %q", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), secret) {
		t.Errorf("ParseKeyring: the error repeats a key: %v", err)
	}
	if _, err := ParseKeyring(make([]string, maxSealKeys+1)); err == nil {
		t.Error("ParseKeyring of too many: got nil, want an error")
	}
}

// A keyring that is replaced while others use it seals with the new key and opens with both.
func TestKeyringIsReplacedInUse(t *testing.T) {
	r := keyring(t, sealKey("k1", 1))
	_, before, err := r.Seal([]byte("s3cret"), "here")
	if err != nil {
		t.Fatal(err)
	}
	r.Replace(keyring(t, sealKey("k2", 2), sealKey("k1", 1)))
	if got, err := r.Open("k1", before, "here"); err != nil || string(got) != "s3cret" {
		t.Errorf("Open of what was sealed before: got %q, %v; want the secret", got, err)
	}
	with, after, err := r.Seal([]byte("s3cret"), "here")
	if err != nil || with != "k2" {
		t.Fatalf("Seal: got %s, %v; want the new key k2", with, err)
	}
	r.Replace(keyring(t))
	if _, err := r.Open("k2", after, "here"); !errors.Is(err, bucketer.ErrSealed) {
		t.Errorf("Open without keys: got %v, want ErrSealed", err)
	}
}
