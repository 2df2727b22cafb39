package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/client"
)

// An API asks a node, to prepare a state and to compare what the page says. Its methods fail the test.
type API struct {
	*client.Client

	t      testing.TB
	base   string
	key    string
	tenant string
}

// Ask returns an API of a node, by its base URL. key and tenant may be "".
func Ask(t testing.TB, base, key, tenant string) *API {
	t.Helper()
	options := []client.Option{}
	if key != "" {
		options = append(options, client.WithKey(key))
	}
	if tenant != "" {
		options = append(options, client.WithTenant(tenant))
	}
	c, err := client.New(base, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &API{Client: c, t: t, base: strings.TrimSuffix(base, "/"), key: key, tenant: tenant}
}

// Do sends a request that Client has no method for. body becomes JSON, unless it is nil, or the bytes of an
// import; the answer is decoded into answer, unless that is nil. It must be a success.
func (a *API) Do(method, path string, body, answer any) {
	a.t.Helper()
	if err := a.try(method, path, body, answer); err != nil {
		a.t.Fatal(err)
	}
}

// askLimit bounds one request.
const askLimit = 30 * time.Second

func (a *API) try(method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	var text []byte
	media := "application/json"
	switch b := body.(type) {
	case nil:
	case []byte:
		text, media = b, "application/x-ndjson"
	default:
		var err error
		if text, err = json.Marshal(b); err != nil {
			return fmt.Errorf("encode %s %s: %w", method, path, err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("make %s %s: %w", method, path, err)
	}
	if text != nil {
		r.Header.Set("Content-Type", media)
	}
	if a.key != "" {
		r.Header.Set("Authorization", "Bearer "+a.key)
	}
	if a.tenant != "" {
		r.Header.Set("Carillon-Tenant", a.tenant)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return fmt.Errorf("read answer of %s %s: %w", method, path, err)
	case resp.StatusCode/100 != 2:
		return fmt.Errorf("%s %s: %s %s", method, path, resp.Status, said)
	case answer == nil:
		return nil
	}
	if err := json.Unmarshal(said, answer); err != nil {
		return fmt.Errorf("decode answer of %s %s: %w", method, path, err)
	}
	return nil
}

// AwaitRun waits until a run is in one of the states, and returns it.
func (a *API) AwaitRun(id client.RunID, states ...client.State) client.Run {
	a.t.Helper()
	var run client.Run
	there, ok := await(patience, func() (bool, string) {
		var err error
		if run, err = a.Runs.Get(a.t.Context(), id); err != nil {
			return false, err.Error()
		}
		for _, state := range states {
			if run.State == state {
				return true, ""
			}
		}
		return false, string(run.State)
	})
	if !ok {
		a.t.Fatalf("waited %v until run %s is %v; it is: %s", patience, id, states, there)
	}
	return run
}

// must returns a value, and fails the test if there is an error instead.
func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// orFail fails the test if there is an error.
func orFail(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
