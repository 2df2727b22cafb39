package tokens

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"carillon.dev/carillon/bucketer/admin"
)

// keysAge is when keys are fetched again although they serve: the provider may have given one up.
const keysAge = time.Hour

// renewEvery is the least time between two requests for keys that are old, and good as long as no
// others are had.
const renewEvery = time.Minute

// keySet has the keys of a provider as they were fetched last.
type keySet struct {
	http *http.Client
	now  func() time.Time

	fetching sync.Mutex // held while keys are fetched; before mu

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetched time.Time // when they were had
	asked   time.Time // when they were asked for last
	err     error     // why they were not had then
}

// verify returns the payload of what a key of the provider has signed. Keys are fetched from url if
// they are old, or if none of them is the one.
func (k *keySet) verify(ctx context.Context, url string, signed *jose.JSONWebSignature) ([]byte, error) {
	k.renew(ctx, url)
	keys, _ := k.known()
	if payload, ok := verifyBy(keys, signed); ok {
		return payload, nil
	}
	k.fetching.Lock() // who else needs other keys waits for them
	k.fetch(ctx, url, askEvery)
	k.fetching.Unlock()
	keys, err := k.known()
	if payload, ok := verifyBy(keys, signed); ok {
		return payload, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", admin.ErrProvider, err)
	}
	return nil, refused("is not signed by a key of the provider")
}

// renew fetches keys that are old, unless somebody does so already: those that are known are good
// meanwhile.
func (k *keySet) renew(ctx context.Context, url string) {
	k.mu.Lock()
	old := len(k.keys) > 0 && k.now().Sub(k.fetched) >= keysAge
	k.mu.Unlock()
	if old && k.fetching.TryLock() {
		defer k.fetching.Unlock()
		k.fetch(ctx, url, renewEvery)
	}
}

// known returns the keys, and why they were not had when they were asked for last.
func (k *keySet) known() ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys, k.err
}

// verifyBy verifies a signature by those of keys that it may be of.
func verifyBy(keys []jose.JSONWebKey, signed *jose.JSONWebSignature) ([]byte, bool) {
	id := signed.Signatures[0].Header.KeyID
	for i := range keys {
		if key := &keys[i]; (id == "" || key.KeyID == id) && key.Use != "enc" {
			if payload, err := signed.Verify(key); err == nil {
				return payload, true
			}
		}
	}
	return nil, false
}

// fetch asks the provider for its keys, unless it was asked within `every`. The caller holds
// fetching.
func (k *keySet) fetch(ctx context.Context, url string, every time.Duration) {
	now := k.now()
	k.mu.Lock()
	soon := !k.asked.IsZero() && now.Sub(k.asked) < every
	if !soon {
		k.asked = now
	}
	k.mu.Unlock()
	if soon {
		return
	}
	keys, err := k.get(ctx, url)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err = err; err == nil {
		k.keys, k.fetched = keys, now
	}
}

func (k *keySet) get(ctx context.Context, url string) ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	r, err := k.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("keys of the provider: %s", r.Status)
	}
	var set jose.JSONWebKeySet
	if err := json.NewDecoder(r.Body).Decode(&set); err != nil {
		return nil, fmt.Errorf("keys of the provider: %w", err)
	}
	return set.Keys, nil
}
