package jetstream

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestClocksKeepPasswordsToThemselves: a URL may hold a user and a password, or a token. What is
// said of the server's clock has neither.
func TestClocksKeepPasswordsToThemselves(t *testing.T) {
	for _, url := range []string{"nats://user:s3cret@127.0.0.1:4222", "nats://s3cret@127.0.0.1:4222"} {
		if err := (Config{URLs: []string{url}, Name: "n"}).withDefaults().Validate(); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		q := &Queue{connection: &connection{log: slog.New(slog.NewTextHandler(&log, nil))}}
		c := newServerClock(q, url)
		c.markMute()
		if text := log.String(); strings.Contains(text, "s3cret") || !strings.Contains(text, "nats://127.0.0.1:4222") {
			t.Errorf("the log says %s, want the server without its password", text)
		}
		if c.url != url {
			t.Errorf("the clock connects to %s, want %s", c.url, url)
		}
	}
}
