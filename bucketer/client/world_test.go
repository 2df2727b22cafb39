package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/client"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// alone is a node that tells nobody anything.
type alone struct{}

func (alone) Near(schema.Shard, []schema.Entry) {}
func (alone) Signal(string, []byte)             {}

// serveAPI serves the API of a node on an empty store in memory. Nothing dispatches its runs.
func serveAPI() (url string, stop func(), err error) {
	store, err := embedded.Open(embedded.Config{Shards: 1})
	if err != nil {
		return "", nil, err
	}
	var handler http.Handler
	e, err := engine.New(bucketer.Config{Store: store, Hints: alone{}, Signals: alone{}})
	if err == nil {
		err = e.Refresh(context.Background())
	}
	if err == nil {
		handler, err = httpapi.New(httpapi.Config{}, httpapi.Deps{Jobs: e, Runs: e, Tasks: e, Recurring: e, Workflows: e, Events: e, Joins: e, Logs: e, Search: e})
	}
	if err != nil {
		_ = store.Close()
		return "", nil, err
	}
	s := httptest.NewServer(handler)
	return s.URL, func() {
		s.Close()
		_ = store.Close()
	}, nil
}

// open returns a client of a new node.
func open(t *testing.T) *client.Client {
	t.Helper()
	url, stop, err := serveAPI()
	if err != nil {
		t.Fatalf("serve the API: %v", err)
	}
	t.Cleanup(stop)
	return connect(t, url)
}

// connect returns a client of a URL.
func connect(t *testing.T, url string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(url, options...)
	if err != nil {
		t.Fatalf("New(%q) = %v", url, err)
	}
	t.Cleanup(c.Close)
	return c
}

// collect returns all of a list.
func collect[T any](t *testing.T, list func(func(T, error) bool)) []T {
	t.Helper()
	var all []T
	for v, err := range list {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		all = append(all, v)
	}
	return all
}
