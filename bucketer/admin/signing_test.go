package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// signals notes what is signalled.
type signals struct {
	mu  sync.Mutex
	all []string
}

func (s *signals) Signal(topic string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, topic+" "+string(body))
}

// inSigning runs f in a bubble with a store and a Signing over it.
func inSigning(t *testing.T, f func(t *testing.T, store *schematest.CountingStore, s *Signing, heard *signals)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, heard := bucketertest.OpenStore(t), &signals{}
		f(t, store, NewSigning(store, keyring(t, sealKey("k1", 1)), heard, time.Now), heard)
	})
}

// wantSecrets checks by what calls are signed.
func wantSecrets(t *testing.T, when string, s *Signing, tenant, name string, want ...[]byte) {
	t.Helper()
	got, err := s.Secrets(t.Context(), tenant, name)
	if len(want) == 0 {
		if !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("%s: Secrets(%s, %s): got %d, %v; want ErrNotFound", when, tenant, name, len(got), err)
		}
		return
	}
	same := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		same = same && bytes.Equal(got[i], want[i])
	}
	if err != nil || !same {
		t.Errorf("%s: Secrets(%s, %s): got %d secrets, %v; want %d others", when, tenant, name, len(got), err, len(want))
	}
}

func TestSigningKeyIsRotatedWithAnOverlap(t *testing.T) {
	inSigning(t, func(t *testing.T, store *schematest.CountingStore, s *Signing, heard *signals) {
		wantSecrets(t, "before", s, "acme", "default")
		first, key, err := s.Create(t.Context(), "acme", "default", "alice")
		if err != nil || key.CreatedBy != "alice" || len(first) != 32 {
			t.Fatalf("Create: got %+v, %v", key, err)
		}
		wantSecrets(t, "made", s, "acme", "default", first)
		wantSecrets(t, "of another tenant", s, "umbrella", "default")
		wantSecrets(t, "of another name", s, "acme", "other")
		if _, _, err := s.Create(t.Context(), "acme", "default", "bob"); !errors.Is(err, ErrKeyName) {
			t.Errorf("Create, again: got %v, want ErrKeyName", err)
		}
		stored, err := store.SigningKeys(t.Context(), "acme")
		if text, _ := json.Marshal(stored); err != nil || bytes.Contains(stored.Keys[0].Secrets[0].Sealed, first) {
			t.Errorf("what is stored holds the secret: %s, %v", text, err)
		}

		time.Sleep(time.Minute)
		second, key, err := s.Rotate(t.Context(), "acme", "default", time.Hour)
		if err != nil || len(key.Secrets) != 2 || !key.Secrets[1].Until.Equal(time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)) {
			t.Fatalf("Rotate: got %+v, %v; want two secrets, the old one for an hour", key, err)
		}
		wantSecrets(t, "rotated", s, "acme", "default", second, first)
		third, _, err := s.Rotate(t.Context(), "acme", "default", 24*time.Hour)
		if err != nil {
			t.Fatalf("Rotate, again: %v", err)
		}
		wantSecrets(t, "rotated again", s, "acme", "default", third, second, first)
		if _, _, err := s.Rotate(t.Context(), "acme", "default", 24*time.Hour); !errors.Is(err, ErrManyKeys) {
			t.Errorf("Rotate a third time: got %v, want ErrManyKeys", err)
		}
		time.Sleep(time.Hour - time.Millisecond)
		wantSecrets(t, "before the first ends", s, "acme", "default", third, second, first)
		time.Sleep(time.Millisecond)
		wantSecrets(t, "once it has ended", s, "acme", "default", third, second)
		fourth, _, err := s.Rotate(t.Context(), "acme", "default", 0)
		if err != nil {
			t.Fatalf("Rotate without an overlap: %v", err)
		}
		wantSecrets(t, "without an overlap", s, "acme", "default", fourth)

		if _, err := s.Revoke(t.Context(), "acme", "default"); err != nil {
			t.Errorf("Revoke: %v", err)
		}
		wantSecrets(t, "revoked", s, "acme", "default")
		if _, err := s.Revoke(t.Context(), "acme", "default"); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("Revoke, again: got %v, want ErrNotFound", err)
		}
		if _, _, err := s.Rotate(t.Context(), "acme", "default", 0); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("Rotate what is revoked: got %v, want ErrNotFound", err)
		}
		if fmt.Sprint(heard.all) != "[signing acme signing acme signing acme signing acme signing acme]" {
			t.Errorf("signals: got %v, want one for each of five changes", heard.all)
		}
	})
}

func TestSigningKeysAreReadSeldomAndForgottenWhenOthersChangeThem(t *testing.T) {
	inSigning(t, func(t *testing.T, store *schematest.CountingStore, s *Signing, _ *signals) {
		elsewhere := NewSigning(store, keyring(t, sealKey("k1", 1)), &signals{}, time.Now)
		for range 1000 {
			wantSecrets(t, "none", s, "acme", "default")
		}
		first, _, err := elsewhere.Create(t.Context(), "acme", "default", "")
		if err != nil {
			t.Fatalf("Create: %v", err)
		}
		wantSecrets(t, "no word yet", s, "acme", "default")
		s.Changed([]byte("acme"))
		wantSecrets(t, "the word came", s, "acme", "default", first)
		if _, err := elsewhere.Revoke(t.Context(), "acme", "default"); err != nil {
			t.Fatalf("Revoke: %v", err)
		}
		time.Sleep(signingAge)
		wantSecrets(t, "the word was lost", s, "acme", "default")
	})
}

func TestSigningKeysOfATenantAreBounded(t *testing.T) {
	inSigning(t, func(t *testing.T, _ *schematest.CountingStore, s *Signing, _ *signals) {
		for i := range schema.MaxSigningKeys {
			if _, _, err := s.Create(t.Context(), "acme", fmt.Sprint("k", 100-i), ""); err != nil {
				t.Fatalf("Create: %v", err)
			}
		}
		if _, _, err := s.Create(t.Context(), "acme", "more", ""); !errors.Is(err, ErrManyKeys) {
			t.Errorf("Create one more: got %v, want ErrManyKeys", err)
		}
		all, err := s.List(t.Context(), "acme")
		for i := 1; i < len(all); i++ {
			if all[i-1].Name >= all[i].Name {
				t.Errorf("List: %s comes before %s", all[i-1].Name, all[i].Name)
			}
		}
		if err != nil || len(all) != schema.MaxSigningKeys {
			t.Errorf("List: got %d, %v; want %d", len(all), err, schema.MaxSigningKeys)
		}
		if all, err := s.List(t.Context(), "umbrella"); err != nil || len(all) != 0 {
			t.Errorf("List of another tenant: got %d, %v; want none", len(all), err)
		}
	})
}

func TestSigningNeedsAKeyOfTheOperator(t *testing.T) {
	inSigning(t, func(t *testing.T, store *schematest.CountingStore, s *Signing, _ *signals) {
		none := NewSigning(store, nil, &signals{}, time.Now)
		if _, _, err := none.Create(t.Context(), "acme", "default", ""); !errors.Is(err, ErrNoSeal) {
			t.Errorf("Create without a key of the operator: got %v, want ErrNoSeal", err)
		}
		if _, _, err := s.Create(t.Context(), "acme", "default", ""); err != nil {
			t.Fatalf("Create: %v", err)
		}
		// A node that lacks the key must not take the tenant for one that signs nothing.
		if got, err := none.Secrets(t.Context(), "acme", "default"); !errors.Is(err, bucketer.ErrSealed) {
			t.Errorf("Secrets without a key of the operator: got %d, %v; want ErrSealed", len(got), err)
		}
		if _, err := none.Revoke(t.Context(), "acme", "default"); err != nil {
			t.Errorf("Revoke without a key of the operator: got %v, want nil", err)
		}
	})
}

func TestSigningKeysChangedAtOnceAreAllThere(t *testing.T) {
	inSigning(t, func(t *testing.T, _ *schematest.CountingStore, s *Signing, _ *signals) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		made := make(map[string][]byte)
		for i := range 3 * signingTries {
			wg.Go(func() {
				name := fmt.Sprint("k", i)
				secret, _, err := s.Create(context.Background(), "acme", name, "")
				if errors.Is(err, schema.ErrUnavailable) {
					return // others came first every time
				}
				if err != nil {
					t.Errorf("Create(%s): %v", name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				made[name] = secret
			})
		}
		wg.Wait()
		for name, secret := range made {
			wantSecrets(t, "made at once", s, "acme", name, secret)
		}
		if len(made) < signingTries {
			t.Errorf("%d keys were made at once, want at least %d", len(made), signingTries)
		}
	})
}
