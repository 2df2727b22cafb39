package cassandra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/schema"
)

// said is a log that keeps all it is told, what the driver says included.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// secureConfig returns what a client of the secure cluster needs.
func secureConfig(t *testing.T, c *cluster.Cluster) (Config, *cluster.Security) {
	t.Helper()
	host, text, err := net.SplitHostPort(c.CQL()[0])
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	sec := c.Security()
	return Config{
		Hosts: []string{host}, Port: port, Keyspace: "secure", Timeout: 20 * time.Second, ConnectTimeout: 20 * time.Second,
		Username: sec.Username, Password: sec.Password, TLS: &TLS{CA: sec.CA},
	}, sec
}

// TestSecureServer: a real server that takes only encrypted connections, and asks who its clients
// are, is spoken to if its certificate is right and the password as well. Whatever is wrong is
// told, the password is not.
func TestSecureServer(t *testing.T) {
	c := cluster.Start(t, cluster.Spec{Cassandra: 1, Secure: true})
	good, sec := secureConfig(t, c)
	otherCA, _ := newCertificates(t)
	const wrong = "hunter-2-is-wrong"

	for _, test := range []struct {
		name   string
		change func(*Config)
		fault  string // part of the error; "" = it is reached
		again  bool   // it is worth trying again
	}{
		{"right, by the node's address", func(*Config) {}, "", false},
		{"right, by a name", func(c *Config) { c.TLS = &TLS{CA: sec.CA, ServerName: sec.ServerName} }, "", false},
		{"unknown authority", func(c *Config) { c.TLS = &TLS{CA: otherCA} }, "certificate signed by unknown authority", false},
		{"authorities of the system", func(c *Config) { c.TLS = &TLS{} }, "certificate signed by unknown authority", false},
		{"other name", func(c *Config) { c.TLS = &TLS{CA: sec.CA, ServerName: "other.test"} }, "not other.test", false},
		{"not encrypted", func(c *Config) { c.TLS = nil }, "unable to create session", true},
		{"wrong password", func(c *Config) { c.Password = wrong }, "Provided username cassandra and/or password are incorrect", false},
		{"unknown user", func(c *Config) { c.Username, c.Password = "nobody", wrong }, "Provided username nobody and/or password are incorrect", false},
		{"no user", func(c *Config) { c.Username, c.Password = "", "" }, "authentication required", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := good
			test.change(&cfg)
			log := &said{}
			cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			_, err := Open(t.Context(), cfg)
			switch {
			case test.fault == "":
				// The keyspace is not there: to know that, the server was reached, believed, and
				// asked.
				if !errors.Is(err, ErrNotMigrated) {
					t.Errorf("Open: got %v, want ErrNotMigrated", err)
				}
			case err == nil || !strings.Contains(err.Error(), test.fault):
				t.Errorf("Open: got %v, want %q", err, test.fault)
			case errors.Is(err, schema.ErrUnavailable) != test.again || errors.Is(err, ErrRefused) == test.again:
				t.Errorf("Open: got %v, worth trying again: %v, refused: %v, want the first %v and the second not", err,
					errors.Is(err, schema.ErrUnavailable), errors.Is(err, ErrRefused), test.again)
			}
			for what, text := range map[string]string{"error": fmt.Sprint(err), "log": log.String()} {
				if strings.Contains(text, wrong) {
					t.Errorf("the %s tells the password: %s", what, text)
				}
			}
		})
	}

	t.Run("rows", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		if _, err := Migrate(ctx, good, MigrateOptions{Replication: "1", Shards: 1}); err != nil {
			t.Fatalf("Migrate: %v", err)
		}
		s, err := Open(ctx, good)
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		e := entryAt(t, somewhere(), 0, "secure", []byte("p"))
		put(t, s, e)
		got, err := s.Entries(ctx, e.ID.Partition(), schema.IDRange{}, 10)
		if err != nil || len(got) != 1 {
			t.Errorf("Entries: got %d, %v, want the one that was put", len(got), err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}
