package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// natsConfig renders the configuration of server index of the cluster's servers; dir is its folder.
func natsConfig(p plan, index int, dir string) string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line("# Made by deploy/local. Changes are lost when the server is started again.")
	line("server_name: %s", memberName(kindNATS, index))
	line("listen: %q", p.addr(kindNATS, index, natsPort))
	line("http: %q", p.addr(kindNATS, index, natsMonitorPort))
	line("jetstream {")
	line("  store_dir: %s", strconv.Quote(filepath.Join(dir, "data")))
	switch {
	case p.Spec.NATSSync > 0:
		line("  sync_interval: %q", p.Spec.NATSSync)
	case p.Spec.NATSSync < 0:
		line("  sync_interval: always")
	}
	line("}")
	if p.Spec.NATS > 1 {
		line("cluster {")
		line("  name: %q", p.natsName())
		line("  listen: %q", p.addr(kindNATS, index, natsRoutePort))
		line("  routes: [")
		for i := 1; i <= p.Spec.NATS; i++ {
			if i != index {
				line("    %q", "nats://"+p.addr(kindNATS, i, natsRoutePort))
			}
		}
		line("  ]")
		line("}")
	}
	return out.String()
}

// natsReady says whether the server answers that it and its JetStream are healthy. A clustered one
// is once it follows an elected leader.
func natsReady(ctx context.Context, p plan, index int) error {
	return httpReady(ctx, "http://"+p.addr(kindNATS, index, natsMonitorPort)+"/healthz")
}

// natsDamage is what the answer of a server says that cannot open its own files of a stream or a
// consumer.
const natsDamage = "error creating store for"

// httpReady is nil if a GET of url answers 200.
func httpReady(ctx context.Context, url string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	// No kept connections: nothing of this may outlive the call.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	const shown = 500 // bytes of the answer
	text, err := io.ReadAll(io.LimitReader(response.Body, shown))
	return errors.Join(fmt.Errorf("%s answers %s: %s", url, response.Status, strings.TrimSpace(string(text))), err)
}
