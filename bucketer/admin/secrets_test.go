package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// vault is Secrets over a store, and what they tell.
type vault struct {
	*Secrets
	store *schematest.CountingStore
	heard *signals

	mu   sync.Mutex
	acts []AuditEvent
}

func (v *vault) note(act AuditEvent) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.acts = append(v.acts, act)
}

func (v *vault) noted() []AuditEvent {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.acts)
}

// over makes Secrets over the store of another node, with those keys of the operator.
func (v *vault) over(t *testing.T, keys ...string) *vault {
	t.Helper()
	other := &vault{store: v.store, heard: &signals{}}
	other.Secrets = NewSecrets(v.store, keyring(t, keys...), other.heard, other.note, "node-1", time.Now, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	return other
}

// inVault runs f in a bubble with Secrets.
func inVault(t *testing.T, f func(t *testing.T, v *vault)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := &vault{store: bucketertest.OpenStore(t)}
		f(t, v.over(t, sealKey("k1", 1)))
	})
}

// put puts a value and returns what is stored.
func (v *vault) put(t *testing.T, name, value string) schema.Secret {
	t.Helper()
	s, _, err := v.Put(t.Context(), "acme", name, []byte(value), "alice")
	if err != nil {
		t.Fatalf("Put(%s): %v", name, err)
	}
	return s
}

// wantValues checks what calls are made with.
func (v *vault) wantValues(t *testing.T, when, name string, want ...string) {
	t.Helper()
	got, err := v.Values(t.Context(), "acme", name)
	if len(want) == 0 && !errors.Is(err, schema.ErrNotFound) || len(want) > 0 && err != nil {
		t.Errorf("%s: Values(%s): got %v", when, name, err)
	}
	var texts []string
	for _, value := range got {
		texts = append(texts, string(value))
	}
	if !slices.Equal(texts, want) {
		t.Errorf("%s: Values(%s): got %q, want %q", when, name, texts, want)
	}
}

func TestSecretIsReplacedWithAnOverlap(t *testing.T) {
	inVault(t, func(t *testing.T, v *vault) {
		v.wantValues(t, "before", "n")
		made, created, err := v.Put(t.Context(), "acme", "n", []byte("first"), "alice")
		if err != nil || !created || made.CreatedBy != "alice" || len(made.Versions) != 1 || made.Versions[0].Number != 1 || made.Versions[0].SealedWith != "k1" {
			t.Fatalf("Put: got %+v, created %t, %v", made, created, err)
		}
		v.wantValues(t, "made", "n", "first")
		if got, err := v.Values(t.Context(), "umbrella", "n"); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("Values of another tenant: got %q, %v; want ErrNotFound", got, err)
		}
		time.Sleep(time.Minute)
		second, created, err := v.Put(t.Context(), "acme", "n", []byte("second"), "bob")
		end := time.Now().UTC().Truncate(time.Millisecond).Add(SecretOverlap)
		if err != nil || created || second.CreatedBy != "alice" || second.Versions[0].Number != 2 || second.Versions[0].CreatedBy != "bob" || !second.Versions[1].Until.Equal(end) {
			t.Fatalf("Put of another value: got %+v, created %t, %v; want two versions, the first until %s", second, created, err, end)
		}
		v.wantValues(t, "replaced", "n", "second", "first")
		v.put(t, "n", "third")
		v.put(t, "n", "fourth")
		v.wantValues(t, "replaced three times", "n", "fourth", "third", "second")
		time.Sleep(SecretOverlap - time.Millisecond)
		v.wantValues(t, "just before the overlap ends", "n", "fourth", "third", "second")
		time.Sleep(time.Millisecond)
		v.wantValues(t, "once it has ended", "n", "fourth")
		if s := v.put(t, "n", "fifth"); len(s.Versions) != 2 {
			t.Errorf("Put after the overlap: got %d versions, want those past it gone", len(s.Versions))
		}
		v.put(t, "n", "third") // a value from before is a new version
		v.wantValues(t, "put back", "n", "third", "fifth", "fourth")

		if was, err := v.Delete(t.Context(), "acme", "n"); err != nil || len(was.Versions) != 3 {
			t.Errorf("Delete: got %+v, %v", was, err)
		}
		v.wantValues(t, "deleted", "n")
		if _, err := v.Delete(t.Context(), "acme", "n"); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("Delete, again: got %v, want ErrNotFound", err)
		}
		anew := v.put(t, "n", "anew")
		if anew.Versions[0].Number != 1 || anew.Revision <= second.Revision {
			t.Errorf("Put anew: got %+v, want version 1 and a revision above %d", anew, second.Revision)
		}
		if n := strings.Count(fmt.Sprint(v.heard.all), "secret acme\nn"); n != 8 {
			t.Errorf("signals: got %q, want one for each of eight changes", v.heard.all)
		}
	})
}

// A repeated put is the same put, and it is how a value comes under a new key of the operator.
func TestSecretPutAgainIsSealedAgain(t *testing.T) {
	inVault(t, func(t *testing.T, v *vault) {
		v.put(t, "n", "before")
		was := v.put(t, "n", "value")
		again := v.put(t, "n", "value")
		if len(again.Versions) != 2 || again.Versions[0].Number != 2 || bytes.Equal(again.Versions[0].Sealed, was.Versions[0].Sealed) || !again.Versions[1].Until.Equal(was.Versions[1].Until) {
			t.Errorf("Put of the value that stands: got %+v, want what was, sealed again", again)
		}
		next := v.over(t, sealKey("k2", 2), sealKey("k1", 1))
		next.wantValues(t, "another key is the first", "n", "value", "before")
		if s := next.put(t, "n", "value"); len(s.Versions) != 2 || s.Versions[0].SealedWith != "k2" || s.Versions[0].Number != 2 {
			t.Errorf("Put of the value that stands, another key is the first: got %+v", s)
		}
		// What is not in force and cannot be opened any more is in nobody's way.
		last := v.over(t, sealKey("k2", 2))
		last.wantValues(t, "the old key is gone", "n", "value")
		if s := last.put(t, "n", "other"); s.Versions[0].Number != 3 {
			t.Errorf("Put, the old key is gone: got %+v", s)
		}
		none := v.over(t)
		if _, _, err := none.Put(t.Context(), "acme", "n", []byte("value"), ""); !errors.Is(err, ErrNoSeal) {
			t.Errorf("Put without a key of the operator: got %v, want ErrNoSeal", err)
		}
		if got, err := none.Values(t.Context(), "acme", "n"); !errors.Is(err, bucketer.ErrSealed) {
			t.Errorf("Values without a key of the operator: got %d, %v; want ErrSealed", len(got), err)
		}
		// One that cannot be opened can be replaced, and deleted.
		other := v.over(t, sealKey("k3", 3))
		other.put(t, "n", "value")
		other.wantValues(t, "put under another key", "n", "value")
		if _, err := none.Delete(t.Context(), "acme", "n"); err != nil {
			t.Errorf("Delete without a key of the operator: %v", err)
		}
	})
}

// What is stored opens where it was sealed, and nowhere else: not in another row, nor in another
// place of its own.
func TestSecretOpensInItsPlaceAlone(t *testing.T) {
	inVault(t, func(t *testing.T, v *vault) {
		v.put(t, "n", "first value")
		s := v.put(t, "n", "second value")
		if text, err := json.Marshal(s); err != nil || bytes.Contains(text, []byte("value")) {
			t.Errorf("what is stored holds the value: %s, %v", text, err)
		}
		moved := s
		moved.Name = "other"
		if err := v.store.SwapSecret(t.Context(), 0, moved); err != nil {
			t.Fatal(err)
		}
		turned := s
		turned.Name, turned.Versions = "n", slices.Clone(s.Versions)
		turned.Versions[0].Sealed, turned.Versions[1].Sealed = s.Versions[1].Sealed, s.Versions[0].Sealed
		turned.Revision++
		if err := v.store.SwapSecret(t.Context(), s.Revision, turned); err != nil {
			t.Fatal(err)
		}
		v.Changed([]byte("acme\nn"))
		for _, name := range []string{"n", "other"} {
			if got, err := v.Values(t.Context(), "acme", name); !errors.Is(err, bucketer.ErrSealed) {
				t.Errorf("Values(%s): got %q, %v; want ErrSealed", name, got, err)
			}
		}
	})
}

func TestSecretsAreReadSeldomAndForgottenWhenOthersChangeThem(t *testing.T) {
	inVault(t, func(t *testing.T, v *vault) {
		elsewhere := v.over(t, sealKey("k1", 1))
		for range 1000 {
			v.wantValues(t, "none", "n")
		}
		elsewhere.put(t, "n", "first")
		v.wantValues(t, "no word yet", "n")
		v.Changed([]byte("acme\nn"))
		v.wantValues(t, "the word came", "n", "first")
		if _, err := elsewhere.Delete(t.Context(), "acme", "n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(secretAge)
		v.wantValues(t, "the word was lost", "n")
		if n := v.store.Tally("Secret").Calls; n > 10 {
			t.Errorf("the store was asked %d times, want a few", n)
		}
	})
}

func TestSecretsOfATenantAreBounded(t *testing.T) {
	inVault(t, func(t *testing.T, v *vault) {
		for i := range schema.MaxSecrets {
			v.put(t, fmt.Sprint("n", 100+i), "value")
		}
		if _, _, err := v.Put(t.Context(), "acme", "more", []byte("value"), ""); !errors.Is(err, ErrManySecrets) {
			t.Errorf("Put of one more: got %v, want ErrManySecrets", err)
		}
		v.put(t, "n100", "another")
		if _, _, err := v.Put(t.Context(), "umbrella", "more", []byte("value"), ""); err != nil {
			t.Errorf("Put of another tenant: %v", err)
		}
		if all, err := v.Secrets.Secrets(t.Context(), "acme", "n150", 7); err != nil || len(all) != 7 || all[0].Name != "n151" {
			t.Errorf("Secrets after n150: got %d, %v; want n151 and six more", len(all), err)
		}
	})
}

func TestSecretsChangedAtOnceAreAllThere(t *testing.T) {
	inVault(t, func(t *testing.T, v *vault) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		put := 0
		for i := range 3 * secretTries {
			wg.Go(func() {
				_, _, err := v.Put(context.Background(), "acme", "n", []byte(fmt.Sprint("value ", i)), "")
				if errors.Is(err, schema.ErrUnavailable) {
					return // others came first every time
				}
				if err != nil {
					t.Errorf("Put: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				put++
			})
		}
		wg.Wait()
		s, err := v.Secret(t.Context(), "acme", "n")
		if err != nil || s.Versions[0].Number != int64(put) || put < secretTries {
			t.Errorf("after %d puts at once: got %+v, %v; want as many versions", put, s, err)
		}
	})
}

// A use is counted, written within minutes as the last one, and told to the audit log once an hour.
func TestUsesOfSecretsAreNoted(t *testing.T) {
	inVault(t, func(t *testing.T, v *vault) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- v.Run(ctx) }()
		v.put(t, "n", "value")
		v.put(t, "idle", "value")
		begun := time.Now().UTC()
		for range 100 {
			v.wantValues(t, "used", "n", "value")
			time.Sleep(time.Second)
		}
		v.wantValues(t, "none", "none")
		if s, err := v.Secret(t.Context(), "acme", "n"); err != nil || !s.LastUsed.Equal(begun.Truncate(time.Millisecond)) {
			t.Errorf("Secret: last used %s, %v; want %s", s.LastUsed, err, begun)
		}
		time.Sleep(usedEvery)
		v.wantValues(t, "used", "n", "value")
		synctest.Wait()
		if s, err := v.Secret(t.Context(), "acme", "n"); err != nil || !s.LastUsed.Equal(time.Now().UTC().Truncate(time.Millisecond)) {
			t.Errorf("Secret, used once more: last used %s, %v; want now", s.LastUsed, err)
		}
		if n := v.store.Tally("TouchSecret").Calls; n != 2 {
			t.Errorf("uses were written %d times, want twice", n)
		}
		if acts := v.noted(); len(acts) != 0 {
			t.Errorf("within the hour the audit log was told %+v", acts)
		}
		time.Sleep(auditUsesEvery)
		want := AuditEvent{Tenant: "acme", Actor: "carillon", Action: "use", Object: "secret/n", Note: "101 attempts on node-1 since " + begun.Format(time.RFC3339)}
		if acts := v.noted(); len(acts) != 1 || acts[0] != want {
			t.Errorf("the audit log was told %+v, want %+v", acts, want)
		}
		time.Sleep(2 * auditUsesEvery) // nothing was used
		v.wantValues(t, "used", "n", "value")
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if acts := v.noted(); len(acts) != 2 || !strings.HasPrefix(acts[1].Note, "1 attempts on node-1") {
			t.Errorf("at the end the audit log was told %+v, want what was not told yet", acts)
		}
		for result, want := range map[string]float64{usedOpened: 102, usedMissing: 1, usedSealed: 0} {
			var m dto.Metric
			if err := v.uses.total.WithLabelValues(result).Write(&m); err != nil || m.GetCounter().GetValue() != want {
				t.Errorf("uses that are %s: got %v, %v; want %v", result, m.GetCounter().GetValue(), err, want)
			}
		}
	})
}

// However many secrets are used, the memory for it is bounded, and no use goes untold.
func TestUsesOfManySecretsAreBounded(t *testing.T) {
	v := &vault{store: bucketertest.OpenStore(t)}
	u := newSecretUses(v.store, v.note, "node-1", slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	for i := range 2*usesCounted + 1 {
		u.note(secretName{"acme", fmt.Sprint("n", i)}, time.Now(), nil)
		if len(u.used) > usesCounted {
			t.Fatalf("%d secrets are counted, want at most %d", len(u.used), usesCounted)
		}
	}
	u.tell()
	if n := len(v.noted()); n != 2*usesCounted+1 {
		t.Errorf("the audit log was told of %d secrets, want all", n)
	}
}

func TestCachedValuesAreBoundedByTheirWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRefreshingCache(func(_ context.Context, k int) (int, error) { return k, nil }, time.Now, time.Second, time.Minute, 10)
		c.weigh = func(v int) int { return v }
		for _, k := range []int{3, 3, 4, 2, 1, 5, 20, 7, 7} {
			if got, err := c.of(t.Context(), k); err != nil || got != k {
				t.Errorf("of(%d) = %d, %v", k, got, err)
			}
			sum := 0
			for k := range c.values {
				sum += k
			}
			if sum != c.weight || sum > 10 && len(c.values) > 1 {
				t.Errorf("after %d: %d are kept, which weigh %d, and count as %d; want at most 10, or one", k, len(c.values), sum, c.weight)
			}
			time.Sleep(2 * time.Second) // so that it is read again, and weighed once
		}
	})
}
