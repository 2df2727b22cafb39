package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
)

// A Secured is a node that asks for keys, on a real Cassandra and a real NATS: `carillon dev` asks
// for none.
type Secured struct {
	URL  string
	Keys map[string]string // by role, of the tenant default; "system" is an admin of all tenants
}

// StartSecured starts one, which ends with the test. Without Java or Maven the test is left out.
func StartSecured(t testing.TB) *Secured {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "carillon.yaml")
	port := freePort(t)
	text := fmt.Sprintf(`node: {name: secured}
api: {listen: "127.0.0.1:%d", auth: required, cursor_key: %q}
ring: {listen: "127.0.0.1:%d"}
cassandra: {hosts: [%q], keyspace: %q, datacenter: dc1}
nats: {urls: [%q]}
executor: {allow_cidrs: [127.0.0.0/8]}
`, port, random(), freePort(t), cluster.Cassandra(t), "console", cluster.NATS(t))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if _, err := runProgram(ctx, path, nil, "migrate", "--config", config, "--replication", "1", "--shards", "4"); err != nil {
		t.Fatal(err)
	}
	s := &Secured{URL: fmt.Sprintf("http://127.0.0.1:%d", port), Keys: map[string]string{}}
	log := new(syncBuffer)
	node := exec.Command(path, "serve", "--config", config) // #nosec G204 -- our own
	node.Env, node.Stdout, node.Stderr = cleanEnvironment(), log, log
	gone, err := launch(node)
	if err != nil {
		t.Fatalf("start a node that asks for keys: %v", err)
	}
	t.Cleanup(func() {
		_ = node.Process.Signal(syscall.SIGTERM) // it has ended by itself
		select {
		case <-gone:
		case <-time.After(serverEnd):
			_ = node.Process.Kill()
			<-gone
		}
		if t.Failed() {
			t.Logf("end of the log of the node:\n%s", log.tail())
		}
	})
	awaitReady(t, s.URL, log)
	for name, of := range map[string]struct{ tenant, role string }{
		"system": {"system", "admin"}, "admin": {"default", "admin"}, "operator": {"default", "operator"}, "viewer": {"default", "viewer"},
	} {
		// Names of keys are kept by the store, which tests share.
		key, err := runProgram(ctx, path, nil, "key", "create", name+"-"+fmt.Sprint(port), "--bootstrap", "--config", config, "--tenant", of.tenant, "--role", of.role)
		if err != nil {
			t.Fatal(err)
		}
		s.Keys[name] = lastWord(key)
	}
	return s
}

// Console returns the address of the page.
func (s *Secured) Console() string { return s.URL + "/console/" }

func lastWord(text string) string {
	words := bytes.Fields([]byte(text))
	if len(words) == 0 {
		return ""
	}
	return string(words[len(words)-1])
}

func awaitReady(t testing.TB, url string, log *syncBuffer) {
	t.Helper()
	there, ok := await(2*time.Minute, func() (bool, string) {
		resp, err := http.Get(url + "/readyz")
		if err != nil {
			return false, err.Error()
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK, resp.Status
	})
	if !ok {
		t.Fatalf("the node at %s is not ready: %s\n%s", url, there, log.tail())
	}
}

// freePort returns a port of the loopback interface that nobody listens on.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func random() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // it never fails
	return base64.StdEncoding.EncodeToString(b)
}
