package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/cmd/internal/config"
)

// readBundle returns the files of a bundle by name.
func readBundle(t *testing.T, file string) map[string]string {
	t.Helper()
	packed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for r := tar.NewReader(z); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(head.Name, "carillon-doctor/")] = string(text)
	}
}

// A node on embedded parts, as carillon dev runs it, has no finding worse than info.
func TestDoctorOfANode(t *testing.T) {
	api := clitest.StartNode(t)
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	r := clitest.Succeed(t, "doctor", "--api", api, "--bundle", file)
	for _, want := range []string{"nodes.ready: all 1 members are ready", "nodes.shards: all 16 shards", "nodes.versions: all run test", "INFO"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("carillon doctor shows\n%s\nwant %q in it", r.Stdout, want)
		}
	}
	files := readBundle(t, file)
	for name, want := range map[string]string{
		"README.txt": "It holds no passwords", "findings.txt": "nodes.ready", "findings.json": `"errors": 0`, "versions.txt": "node test test",
		"nodes/test/cluster.json": `"shards"`, "nodes/test/regions.json": `"homes"`, "nodes/test/metrics.txt": "carillon_build_info",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("file %s of the bundle is %.200q, want %q in it", name, files[name], want)
		}
	}
	if r := clitest.Run(t.Context(), "", "doctor", "--api", api, "--bundle", file); r.Code != 1 || !strings.Contains(r.Stderr, "file exists") {
		t.Errorf("a bundle over another: exit %d, %q, want 1 and that it exists", r.Code, r.Stderr)
	}
	report := clitest.Decode[Report](t, clitest.Succeed(t, "doctor", "--api", api, "--json").Stdout)
	if report.Version != "test" || report.Errors != 0 || len(report.Findings) == 0 {
		t.Errorf("carillon doctor --json = %+v", report)
	}
}

// TestTheSameNodeTwice: two addresses of one node counted as two nodes that see the same members.
func TestTheSameNodeTwice(t *testing.T) {
	serve := func() string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/metrics":
				_, _ = fmt.Fprintln(w, "carillon_executor_noop 0")
			case "/v1/cluster":
				_ = json.NewEncoder(w).Encode(wellCluster("a"))
			default:
				_, _ = fmt.Fprintln(w, `{"homes":[]}`)
			}
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	one, same := serve(), serve()
	if nodes := (asker{http: http.DefaultClient}).nodes(t.Context(), []string{one, one, same}); len(nodes) != 1 || nodes[0].Err != nil || nodes[0].Name != "a" {
		t.Errorf("one node, asked at two addresses, is %d nodes: %+v", len(nodes), nodes)
	}
}

func TestDoctorOfNobody(t *testing.T) {
	if r := clitest.Run(t.Context(), "", "doctor", "--api", "http://127.0.0.1:1"); r.Code != 2 || !strings.Contains(r.Stdout, "nodes.reachable") || !strings.Contains(r.Stderr, "errors: 1") {
		t.Errorf("carillon doctor where nobody listens exits %d with %q, %q, want 2", r.Code, r.Stdout, r.Stderr)
	}
	for _, args := range []string{"doctor --nats-monitor x:8222", "doctor --timeout 0s", "doctor -o yaml", "doctor x"} {
		if r := clitest.Run(t.Context(), "", strings.Fields(args)...); r.Code != 2 || r.Stdout != "" {
			t.Errorf("carillon %s exits %d with %q, want 2", args, r.Code, r.Stdout)
		}
	}
}

// planted are secrets, by the key of the configuration.
var planted = map[string]string{
	"api.cursor_key":     "planted-cursor-key-0001",
	"cassandra.password": "planted/pass+word=0002",
	"cassandra.username": "planted-user-0003",
	"email.password":     "planted-mail-0004",
	"email.username":     "planted-user-0013",
	"nats.token":         "planted-token-0005",
	"ring.key":           base64.StdEncoding.EncodeToString([]byte("planted-ring-006")),
	"secrets.keys":       base64.StdEncoding.EncodeToString([]byte("planted-secrets-key-32-bytes-007")),
}

// plantedURLs are secrets in URLs.
var plantedURLs = []string{"planted-user-0008", "planted pass@0009", "planted-user-0010", "planted-pass-0011"}

// Every secret of a configuration is planted, and the API says each of them, too, wherever it says
// anything: no byte of the bundle, nor of what is shown, has one.
func TestNoSecretLeaves(t *testing.T) {
	const key = "planted-api-key-0012"
	var all []string
	for name, secret := range planted {
		all = append(all, secret)
		if raw, err := base64.StdEncoding.DecodeString(secret); err == nil && (name == "ring.key" || name == "secrets.keys") {
			all = append(all, string(raw), fmt.Sprintf("%x", raw))
		}
	}
	all = append(append(all, plantedURLs...), key)
	said := strings.Join(all, " ")
	for _, s := range all {
		said += " " + url.QueryEscape(s) + " " + base64.StdEncoding.EncodeToString([]byte(s))
	}
	var (
		mu   sync.Mutex
		keys = make(map[string]bool)
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		keys[r.Header.Get("Authorization")] = true
		mu.Unlock()
		if r.URL.Path == "/metrics" {
			_, _ = fmt.Fprintf(w, "# HELP x %s\ncarillon_executor_noop 1\n", said)
			return
		}
		c := wellCluster("a")
		c.Members[0].Checks[0] = httpapi.Check{Name: "store", Message: said}
		c.Members[1].Name = "x " + key
		_ = json.NewEncoder(w).Encode(c)
	}))
	t.Cleanup(server.Close)

	dir := t.TempDir()
	scripts := filepath.Join(dir, "c.yaml")
	text := fmt.Sprintf(`
api: {listen: "0.0.0.0:8080", cursor_key: %q, advertise: "http://%s:%s@127.0.0.1:1/"}
cassandra: {hosts: ["127.0.0.1:1"], username: %q, password: %q}
nats: {urls: ["nats://%s:%s@127.0.0.1:1"], token: %q}
ring: {listen: "10.0.0.1:7946", key: %q}
secrets: {keys: ["k1:%s"]}
email: {server: "127.0.0.1:1", from: "c@x.test", username: %q, password: %q}
`, planted["api.cursor_key"], url.QueryEscape(plantedURLs[2]), url.PathEscape(plantedURLs[3]), planted["cassandra.username"], planted["cassandra.password"],
		url.PathEscape(plantedURLs[0]), url.PathEscape(plantedURLs[1]), planted["nats.token"], planted["ring.key"], planted["secrets.keys"],
		planted["email.username"], planted["email.password"])
	if err := os.WriteFile(scripts, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(scripts, nil, nil)
	if err != nil {
		t.Fatalf("the planted configuration: %v", err)
	}
	for k, v := range c.Redacted() { // none is forgotten here; user and password, or token
		if v == config.Hidden && planted[k] == "" {
			t.Errorf("%s is a secret: plant one", k)
		}
	}
	for k := range planted {
		if c.Redacted()[k] != config.Hidden {
			t.Errorf("%s is planted, and %v is shown", k, c.Redacted()[k])
		}
	}

	t.Setenv("CARILLON_KEY", key)
	for name, args := range map[string][]string{"text": nil, "json": {"--json"}} {
		file := filepath.Join(dir, name+".tar.gz")
		r := clitest.Run(t.Context(), "", append([]string{"doctor", "--config", scripts, "--api", server.URL, "--bundle", file}, args...)...)
		if r.Code != 2 {
			t.Fatalf("carillon doctor exits %d, want 2\n%s%s", r.Code, r.Stdout, r.Stderr)
		}
		files := readBundle(t, file)
		for _, want := range []string{"config.json", "nodes/a/metrics.txt", "nodes/a/cluster.json", "findings.json"} {
			if files[want] == "" {
				t.Errorf("the bundle has no %s", want)
			}
		}
		packed, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		files["(packed)"], files["(stdout)"], files["(stderr)"] = string(packed), r.Stdout, r.Stderr
		for name, text := range files {
			for _, secret := range all {
				for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret))} {
					if strings.Contains(text, form) || strings.Contains(name, form) {
						t.Errorf("%s has the secret %q as %q", name, secret, form)
					}
				}
			}
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the bundle has mode %v, %v, want that its owner alone reads it", info.Mode(), err)
		}
	}
	if !keys["Bearer "+key] {
		t.Error("the API of --api was asked without the key")
	}
}

// The key goes to addresses that the ring names only if ring.key keeps strangers out of it.
func TestTheKeyGoesToNoStranger(t *testing.T) {
	var mu sync.Mutex
	heard := make(map[string]bool)
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		heard[r.Header.Get("Authorization")] = true
		_ = json.NewEncoder(w).Encode(wellCluster("b"))
	}))
	defer stranger.Close()
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c := wellCluster("a")
		c.Members[1].API = stranger.URL
		_ = json.NewEncoder(w).Encode(c)
	}))
	defer first.Close()
	for _, trusted := range []bool{false, true} {
		clear(heard)
		a := asker{key: "k", trusted: trusted, http: first.Client()}
		nodes := a.nodes(t.Context(), []string{first.URL})
		if len(nodes) != 2 || nodes[1].Name != "b" || nodes[1].Err != nil {
			t.Fatalf("nodes = %+v, want both", nodes)
		}
		if heard["Bearer k"] != trusted || heard[""] == trusted {
			t.Errorf("trusted %v: the stranger heard %v", trusted, heard)
		}
	}
}

func TestMonitor(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"server_name":"n1","jetstream":{"config":{"max_storage":100,"sync_interval":120000000000},"stats":{"storage":7}}}`)
	}))
	defer server.Close()
	m := monitor(t.Context(), server.Client(), server.URL)
	if m.Err != nil || m.Name != "n1" || !m.On || m.Sync.Minutes() != 2 || m.Always || m.Used != 7 || m.Limit != 100 {
		t.Errorf("monitor = %+v", m)
	}
	if m := monitor(t.Context(), server.Client(), "http://127.0.0.1:1"); m.Err == nil {
		t.Error("monitor of nobody has no error")
	}
}

// What was seen of Cassandra and NATS is in the bundle, errors or not.
func TestBundleOfACluster(t *testing.T) {
	f := wellFacts()
	f.Queue.Seen.Streams[0].Err = errors.New("no answer")
	f.Nodes = append(f.Nodes, NodeFacts{Base: "http://c", Err: errors.New("refused")})
	r := newReport(f, f.judge(), hider{})
	entries, err := f.entries(&r)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for _, e := range entries {
		found[e.name] = string(e.text)
	}
	for name, want := range map[string]string{
		"cassandra.json": `"runs": "4h0m0s"`, "nats.json": `"CARILLON_0"`, "config.json": `"ring.key": "(hidden)"`, "nodes/b/cluster.json": `"node": "b"`,
		"findings.txt": "no answer", "versions.txt": "cassandra 5.0.6",
	} {
		if !strings.Contains(found[name], want) {
			t.Errorf("%s is %.300q, want %s in it", name, found[name], want)
		}
	}
}
