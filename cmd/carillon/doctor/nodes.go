package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer/httpapi"
)

// Bounds of asking nodes.
const (
	askTimeout = 5 * time.Second // of one question
	askAtOnce  = 8
	maxNodes   = 200     // asked
	maxMetrics = 8 << 20 // bytes of one node
)

// asker asks nodes.
type asker struct {
	key, tenant string
	// trusted: the key may be sent to addresses that the ring names.
	trusted bool
	http    *http.Client
}

// nodes asks the nodes at bases, and those that they name. The first that answers names them; if none
// does, there is one entry for each base.
func (a asker) nodes(ctx context.Context, bases []string) []NodeFacts {
	var asked []NodeFacts
	answered := -1
	known := make(map[string]bool) // names and bases
	for _, base := range bases {
		if known[base] {
			continue
		}
		n := a.node(ctx, base, "", a.key)
		if known[base] = true; n.Err == nil && known[n.Name] {
			continue // another address of the same node
		}
		asked = append(asked, n)
		if n.Err == nil {
			known[n.Name] = true
			if answered < 0 {
				answered = len(asked) - 1
			}
		}
	}
	if answered < 0 {
		return asked
	}
	key := ""
	if a.trusted {
		key = a.key
	}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(askAtOnce)
	members := asked[answered].Cluster.Members
	for i := range members {
		m := &members[i]
		base := strings.TrimSuffix(m.API, "/")
		if base == "" || known[m.Name] || known[base] || len(known) > maxNodes {
			continue
		}
		known[base] = true
		g.Go(func() error {
			n := a.node(ctx, base, m.Name, key)
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, n)
			return nil
		})
	}
	_ = g.Wait() // none returns an error
	return asked
}

// node asks one node for all that it says.
func (a asker) node(ctx context.Context, base, name, key string) NodeFacts {
	n := NodeFacts{Base: base, Name: name}
	c, err := httpapi.NewClient(httpapi.ClientConfig{URLs: []string{base}, Tenant: a.tenant, Key: key, Timeout: askTimeout, Retries: -1, HTTP: a.http})
	if err != nil {
		n.Err = err
		return n
	}
	if n.Cluster, n.Err = c.Cluster(ctx); n.Err != nil {
		return n
	}
	n.Name = n.Cluster.Node
	n.Regions, n.RegErr = c.Regions(ctx)
	n.Metrics, n.MetErr = a.metrics(ctx, base, key)
	return n
}

// metrics reads /metrics of a node.
func (a asker) metrics(ctx context.Context, base, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/metrics answers %s", resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxMetrics+1))
	if err == nil && len(text) > maxMetrics {
		err = errors.New("/metrics is larger than 8 MiB")
	}
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return text, nil
}

// gauge returns the value of a metric without labels.
func gauge(metrics []byte, name string) (float64, bool) {
	for line := range bytes.Lines(metrics) {
		rest, found := bytes.CutPrefix(line, []byte(name+" "))
		if !found {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(string(rest)), 64)
		return v, err == nil
	}
	return 0, false
}
