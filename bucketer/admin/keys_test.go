package admin

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// keysOn returns a store in memory that counts its calls, and Keys over it that tell hear of
// changes.
func keysOn(t *testing.T, hear ...func(topic string, body []byte)) (*schematest.CountingStore, *Keys) {
	t.Helper()
	store := bucketertest.OpenStore(t)
	return store, NewKeys(store, bucketertest.Signals(hear), time.Now, slog.New(slog.DiscardHandler))
}

func TestKeyLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, keys := keysOn(t)
		ask := schema.APIKey{Tenant: "a", Name: "n", Role: schema.Operator, CreatedBy: "me", ExpiresAt: time.Now().Add(time.Hour).UTC()}
		secret, made, err := keys.Create(t.Context(), ask)
		if err != nil || !strings.HasPrefix(secret, KeyPrefix) || len(secret) != len(KeyPrefix)+52 || made.Hash != schema.HashKey(secret) {
			t.Fatalf("Create = %q, %+v, %v", secret, made, err)
		}
		if _, _, err := keys.Create(t.Context(), ask); !errors.Is(err, ErrKeyName) {
			t.Errorf("Create of the same name = %v, want %v", err, ErrKeyName)
		}
		for range 100 {
			got, err := keys.Authenticate(t.Context(), secret)
			if err != nil || got.Tenant != "a" || got.Name != "n" || got.Role != schema.Operator {
				t.Fatalf("Authenticate = %+v, %v; want %+v", got, err, made)
			}
		}
		if got := store.Tally("APIKey").Calls; got != 1 {
			t.Errorf("a hundred requests read the key %d times, want once", got)
		}
		listed, err := keys.List(t.Context(), "a", "", 10)
		if err != nil || len(listed) != 1 || listed[0].Hash != made.Hash {
			t.Errorf("List = %+v, %v; want the key", listed, err)
		}
		time.Sleep(time.Hour - 100*time.Millisecond)
		if _, err := keys.Authenticate(t.Context(), secret); err != nil {
			t.Errorf("Authenticate just before the end = %v", err)
		}
		time.Sleep(100 * time.Millisecond) // the key is still known by heart
		if _, err := keys.Authenticate(t.Context(), secret); !errors.Is(err, ErrNoKey) {
			t.Errorf("Authenticate at its end = %v, want %v", err, ErrNoKey)
		}
		if was, err := keys.Revoke(t.Context(), "a", "n"); err != nil || was.Hash != made.Hash {
			t.Errorf("Revoke = %+v, %v; want the key", was, err)
		}
		if _, err := keys.Revoke(t.Context(), "a", "n"); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("Revoke again = %v, want %v", err, schema.ErrNotFound)
		}
	})
}

// A key that was revoked is refused at once where one hears of it, and within 10 s where the word
// of it is lost.
func TestRevokedKeysAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var near *Keys
		store, here := keysOn(t, func(topic string, body []byte) {
			if topic == schema.TopicKey {
				near.Changed(body)
			}
		})
		near = NewKeys(store, bucketertest.Signals(nil), time.Now, slog.New(slog.DiscardHandler))
		far := NewKeys(store, bucketertest.Signals(nil), time.Now, slog.New(slog.DiscardHandler))
		secret, _, err := here.Create(t.Context(), schema.APIKey{Tenant: "a", Name: "n", Role: schema.Viewer})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []*Keys{here, near, far} {
			if _, err := k.Authenticate(t.Context(), secret); err != nil {
				t.Fatalf("Authenticate = %v", err)
			}
		}
		if _, err := here.Revoke(t.Context(), "a", "n"); err != nil {
			t.Fatal(err)
		}
		for name, k := range map[string]*Keys{"who revoked it": here, "who heard of it": near} {
			if _, err := k.Authenticate(t.Context(), secret); !errors.Is(err, ErrNoKey) {
				t.Errorf("Authenticate of %s = %v, want %v", name, err, ErrNoKey)
			}
		}
		for range 10 { // used all the time
			time.Sleep(time.Second - time.Millisecond)
			_, err = far.Authenticate(t.Context(), secret)
		}
		if !errors.Is(err, ErrNoKey) {
			t.Errorf("Authenticate of who heard nothing, after 10 s = %v, want %v", err, ErrNoKey)
		}
	})
}

func TestWhatCannotBeAKeyIsNotLookedUp(t *testing.T) {
	store, keys := keysOn(t)
	secret, _, err := keys.Create(t.Context(), schema.APIKey{Tenant: "a", Name: "n", Role: schema.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		"", KeyPrefix, secret[1:], secret + "a", secret[:len(secret)-1], strings.ToUpper(secret), " " + secret, secret[:len(secret)-1] + "\n",
		secret[:len(secret)-1] + "!", "x" + secret[1:], strings.Repeat("a", 1<<20),
	} {
		if _, err := keys.Authenticate(t.Context(), key); !errors.Is(err, ErrNoKey) {
			t.Errorf("Authenticate(%.80q) = %v, want %v", key, err, ErrNoKey)
		}
	}
	if got := store.Tally("APIKey").Calls; got != 0 {
		t.Errorf("they were looked up %d times, want not at all", got)
	}
	if _, err := keys.Authenticate(t.Context(), KeyPrefix+strings.Repeat("a", 52)); !errors.Is(err, ErrNoKey) {
		t.Errorf("Authenticate of one that does not exist = %v, want %v", err, ErrNoKey)
	}
}

// Nothing is concluded from a store that does not answer.
func TestKeysOfAStoreThatDoesNotAnswer(t *testing.T) {
	_, keys := keysOn(t)
	secret, _, err := keys.Create(t.Context(), schema.APIKey{Tenant: "a", Name: "n", Role: schema.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	keys.cache.read = func(context.Context, schema.KeyHash) (schema.APIKey, error) {
		return schema.APIKey{}, schema.ErrUnavailable
	}
	if _, err := keys.Authenticate(t.Context(), secret); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("Authenticate = %v, want %v", err, schema.ErrUnavailable)
	}
}

func TestTheUseOfKeysIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, keys := keysOn(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- keys.Run(ctx) }()
		secret, _, err := keys.Create(t.Context(), schema.APIKey{Tenant: "a", Name: "n", Role: schema.Viewer})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		for range 20 * 60 {
			if _, err := keys.Authenticate(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if got := store.Tally("TouchAPIKey").Calls; got != 4 {
			t.Errorf("in 20 minutes the use was noted %d times, want every 5 minutes", got)
		}
		listed, err := keys.List(t.Context(), "a", "", 10)
		if want := begin.Add(15 * time.Minute); err != nil || len(listed) != 1 || !listed[0].LastUsed.Equal(want.Truncate(time.Millisecond)) {
			t.Errorf("List = %+v, %v; want it used last at %v", listed, err, want)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
}
