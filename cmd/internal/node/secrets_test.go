package node

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/executor/webhook"
	"carillon.dev/carillon/schema"
)

// A signing key is shown once, in the answer that created it. Nothing else that a node answers,
// logs or stores contains it, not even at debug level or when calls fail. The same holds for the
// operator's key that encrypts it.
func TestSigningKeyIsInNothingThatANodeSaysOrWrites(t *testing.T) {
	dir, log := t.TempDir(), &pages{}
	seal, other := bytes.Repeat([]byte("seal"), 8), bytes.Repeat([]byte("moon"), 8)
	begin := func(name string, key []byte) *running {
		keyed := func(c *config.Config) {
			c.Secrets.Keys = []string{name + ":" + base64.StdEncoding.EncodeToString(key)}
		}
		cfg := config.Default()
		cfg.Node.Name = "dev"
		keyed(&cfg)
		l := slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		return startWith(t, "dev", Embedded(cfg, Place{Dir: dir}, "test", l, prometheus.NewRegistry()), l, keyed).up()
	}
	r := begin("k1", seal)
	var texts []string // of the signing key
	hidden := map[string][]byte{"the operator's key": seal, "the operator's other key": other}
	keep := func(k httpapi.NewSigningKey, err error) {
		t.Helper()
		secret, perr := webhook.ParseSecret(k.Secret)
		if err != nil || perr != nil {
			t.Fatalf("a new signing key: %v, %v", err, perr)
		}
		texts = append(texts, k.Secret)
		hidden["secret "+strconv.Itoa(len(texts))] = secret
	}
	keep(r.client().CreateSigningKey(t.Context(), request.SigningRequest{Name: "orders"}))
	keep(r.client().RotateSigningKey(t.Context(), "orders", request.RotateRequest{}))
	search := func(what string, text []byte) {
		t.Helper()
		for name, secret := range hidden {
			if form := formOf(secret, text); form != "" {
				t.Errorf("%s holds %s, %s", what, name, form)
			}
		}
	}
	for name, secret := range hidden { // so that this is more than silence
		if formOf(secret, fmt.Appendf(nil, "x%vx", secret)) == "" || formOf(secret, []byte("x"+webhook.FormatSecret(secret))) == "" {
			t.Fatalf("%s is not found where it is", name)
		}
	}

	var verified sync.Map // texts by which a call was signed
	url := sink(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, text := range texts {
			if v, err := webhook.NewVerifier(text); err == nil && v.Verify(r.Header, body) == nil {
				verified.Store(text, true)
			}
		}
		w.WriteHeader(http.StatusInternalServerError)
		_ = r.Header.Write(w) // it says all that it was told
	})
	// what is certainly stored: where it is not found nothing would be
	const canary = "canary-in-the-payload"
	task := func(url string) (name string) {
		t.Helper()
		name = "t" + uuid.NewString()
		work := schema.Work{
			HTTP:  &schema.HTTPTarget{URL: url, SigningKey: "orders"},
			Retry: &schema.Retry{MaxAttempts: 2, Initial: schema.Duration(10 * time.Millisecond)},
		}
		if _, err := r.client().PutTask(t.Context(), name, request.TaskRequest{Work: work}); err != nil {
			t.Fatalf("PutTask = %v", err)
		}
		return name
	}
	// fail has a run of the task fail, and reads all that is said of it.
	fail := func(task string) httpapi.DeadLetter {
		t.Helper()
		job, err := r.client().CreateJob(t.Context(), request.JobRequest{Key: uuid.NewString(), Task: task, Payload: json.RawMessage(`"` + canary + `"`)})
		if err != nil {
			t.Fatalf("CreateJob = %v", err)
		}
		l := r.letter(schema.RunID(job.ID))
		id := "/" + job.ID.String()
		for _, path := range []string{
			"/metrics", "/readyz", "/v1/signing-keys", "/v1/audit", "/v1/cluster", "/v1/stats", "/v1/dead-letters", "/v1/tasks", "/v1/tasks/" + task,
			"/v1/jobs" + id, "/v1/runs" + id, "/v1/runs" + id + "/output", "/v1/runs" + id + "/output?attempt=1", "/v1/runs" + id + "/logs", "/v1/logs", "/v1/dead-letters" + id,
		} {
			status, body := get(t, r.url+path)
			if status != http.StatusOK {
				t.Errorf("GET %s answers %d\n%s", path, status, body)
			}
			search("GET "+path, []byte(body))
		}
		return l
	}
	if l := fail(task(url)); l.Attempts != 2 || l.StatusCode != http.StatusInternalServerError || !strings.Contains(l.Output, webhook.HeaderSignature) {
		t.Errorf("a call that is answered by 500 leaves %d attempts, status %d and %q, want 2, and the headers that came back", l.Attempts, l.StatusCode, l.Output)
	}
	for _, text := range texts {
		if _, ok := verified.Load(text); !ok {
			t.Error("no call was signed by a secret that was shown")
		}
	}
	away := task("http://127.0.0.1:1/") // nobody listens there
	if l := fail(away); l.Attempts != 2 || l.Error == "" {
		t.Errorf("a call that cannot be made leaves %d attempts and %q, want 2 and why", l.Attempts, l.Error)
	}
	once := r.clientOf(httpapi.ClientConfig{Retries: -1})
	for what, do := range map[string]func() error{
		"create what is there": func() error {
			_, err := once.CreateSigningKey(t.Context(), request.SigningRequest{Name: "orders"})
			return err
		},
		"rotate what is not there": func() error {
			_, err := once.RotateSigningKey(t.Context(), "none", request.RotateRequest{})
			return err
		},
		"rotate for too long": func() error {
			d := schema.Duration(1000 * time.Hour)
			_, err := once.RotateSigningKey(t.Context(), "orders", request.RotateRequest{Overlap: &d})
			return err
		},
	} {
		err := do()
		if err == nil {
			t.Fatalf("%s: nil, want an error", what)
		}
		search(what, fmt.Appendf(nil, "%v %+v", err, err))
	}
	searchFolder(t, dir, canary, search) // as it is while the node runs
	r.stop()
	searchFolder(t, dir, canary, search)

	r = begin("k2", other) // by which what is sealed does not open
	if l := fail(away); !strings.Contains(l.Error, "cannot be opened") {
		t.Errorf("a call whose key cannot be opened fails with %q, want that it says so", l.Error)
	}
	r.stop()
	searchFolder(t, dir, canary, search)
	text := log.text()
	if !bytes.Contains(text, []byte(`"level":"DEBUG"`)) || !bytes.Contains(text, []byte("a signing key cannot be opened")) {
		t.Errorf("the log lacks what is known to be logged:\n%s", text)
	}
	search("the log", text)
}

// pages is a log in memory.
type pages struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (p *pages) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.Write(b)
}

func (p *pages) text() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.all.Bytes())
}

// formOf returns the encoding in which text contains secret, "" if it contains it in none.
func formOf(secret, text []byte) string {
	quoted := strconv.Quote(string(secret))
	inJSON, _ := json.Marshal(string(secret)) // text encodes
	for form, s := range map[string]string{
		"as it is": string(secret),
		// with whsec_ before it or without
		"in base64":               base64.RawStdEncoding.EncodeToString(secret),
		"in base64 of URLs":       base64.RawURLEncoding.EncodeToString(secret),
		"in hexadecimals":         hex.EncodeToString(secret),
		"in HEXADECIMALS":         strings.ToUpper(hex.EncodeToString(secret)),
		"in numbers":              strings.Trim(fmt.Sprint(secret), "[]"),
		"in numbers, with commas": strings.ReplaceAll(strings.Trim(fmt.Sprint(secret), "[]"), " ", ","),
		"quoted":                  quoted[1 : len(quoted)-1],
		"quoted, as JSON":         string(inJSON[1 : len(inJSON)-1]),
	} {
		if bytes.Contains(text, []byte(s)) {
			return form
		}
	}
	return ""
}

// searchFolder searches every file below dir, and sees that what is certainly stored is found
// there.
func searchFolder(t *testing.T, dir, canary string, search func(what string, text []byte)) {
	t.Helper()
	found := false
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && d.IsDir() {
			return nil // a running store removes files
		}
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		found = found || bytes.Contains(text, []byte(canary))
		search("file "+filepath.Base(path), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		t.Error("not even a payload is found in the files of the store: the search says nothing")
	}
}
