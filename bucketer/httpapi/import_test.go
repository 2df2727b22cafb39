package httpapi

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// answerLine is any line of the answer of an import.
type answerLine struct {
	ImportResult
	Summary *ImportSummary `json:"summary"`
}

// sendImport sends an import and returns all lines of the answer.
func sendImport(t testing.TB, hs *httptest.Server, query, encoding string, body io.Reader) []answerLine {
	t.Helper()
	req, err := http.NewRequest("POST", hs.URL+importPath+query, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", ndjson)
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	resp, err := hs.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != ndjson {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("import%s = %d %s %s, want 200 %s", query, resp.StatusCode, resp.Header.Get("Content-Type"), text, ndjson)
	}
	return readAnswers(t, resp.Body)
}

// beginImport sends the first line of an import, and returns what takes the next ones and what has
// the answers.
func beginImport(t *testing.T, hs *httptest.Server) (*io.PipeWriter, io.Reader) {
	t.Helper()
	r, w := io.Pipe()
	req, err := http.NewRequest("POST", hs.URL+importPath, r)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(w, line+"\n") }()
	resp, err := hs.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return w, resp.Body
}

func readAnswers(t testing.TB, r io.Reader) []answerLine {
	t.Helper()
	var lines []answerLine
	for sc := bufio.NewScanner(r); ; {
		if !sc.Scan() {
			if err := sc.Err(); err != nil {
				t.Fatalf("read answers: %v", err)
			}
			return lines
		}
		var l answerLine
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			t.Fatalf("answer %q: %v", sc.Text(), err)
		}
		lines = append(lines, l)
	}
}

// statuses sums answers up as "line:status" in order of lines, and what the last answer is.
func statuses(t testing.TB, lines []answerLine) (string, *ImportSummary) {
	t.Helper()
	if len(lines) == 0 {
		t.Fatal("an import without any answer")
	}
	last := lines[len(lines)-1]
	lines = slices.Clone(lines[:len(lines)-1])
	slices.SortFunc(lines, func(a, b answerLine) int { return int(a.Line - b.Line) })
	var b strings.Builder
	for _, l := range lines {
		if l.Summary != nil {
			t.Error("a summary that is not last")
		}
		fmt.Fprintf(&b, "%d:%d ", l.Line, l.Status)
	}
	return strings.TrimSpace(b.String()), last.Summary
}

func pack(t testing.TB, encoding, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zstd":
		z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		w = z
	default:
		return []byte(text)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const line = `{"nats":{"subject":"a"}}`

func TestImportAnswersEveryLine(t *testing.T) {
	keyed := func(key, subject string) string {
		return fmt.Sprintf(`{"key":%q,"nats":{"subject":%q},"schedule":{"at":"2026-11-21T10:00:00Z"}}`, key, subject)
	}
	atLimit := func(extra int) string {
		return line + strings.Repeat(" ", request.MaxLine-len(line)+extra)
	}
	for name, row := range map[string]struct {
		query, body string
		want        string
		summary     ImportSummary
	}{
		"nothing":                     {"", "", "", ImportSummary{}},
		"blank lines":                 {"", "\n \r\n\n", "", ImportSummary{}},
		"one line":                    {"", line + "\n", "1:201", ImportSummary{Lines: 1, Created: 1}},
		"no line end at the end":      {"", line + "\n" + line, "1:201 2:201", ImportSummary{Lines: 2, Created: 2}},
		"line numbers count blanks":   {"", "\n" + line + "\r\n\n" + line, "2:201 4:201", ImportSummary{Lines: 2, Created: 2}},
		"bad lines among good":        {"", line + "\n{\n" + line + "\n{}\n\"\xff\"\n" + line, "1:201 2:400 3:201 4:422 5:400 6:201", ImportSummary{Lines: 6, Created: 3, Failed: 3}},
		"only bad lines":              {"", "x\nx\n", "1:400 2:400", ImportSummary{Lines: 2, Failed: 2}},
		"keys":                        {"", keyed("a", "x") + "\n" + keyed("b", "x"), "1:201 2:201", ImportSummary{Lines: 2, Created: 2}},
		"a key again":                 {"", keyed("a", "x") + "\n" + keyed("a", "x") + "\n" + keyed("a", "y"), "1:201 2:200 3:422", ImportSummary{Lines: 3, Created: 1, Existing: 1, Failed: 1}},
		"a task that is none":         {"", `{"task":"none"}`, "1:422", ImportSummary{Lines: 1, Failed: 1}},
		"a line at the limit":         {"", atLimit(0) + "\n" + line, "1:201 2:201", ImportSummary{Lines: 2, Created: 2}},
		"a line over the limit":       {"", line + "\n" + atLimit(1) + "\n" + line, "1:201 2:413 3:201", ImportSummary{Lines: 3, Created: 2, Failed: 1}},
		"a line far over the limit":   {"", line + "\n" + strings.Repeat("x", 5*request.MaxLine) + "\n" + line, "1:201 2:413 3:201", ImportSummary{Lines: 3, Created: 2, Failed: 1}},
		"two lines over the limit":    {"", atLimit(1) + "\n" + atLimit(1) + "\n" + line, "1:413 2:413 3:201", ImportSummary{Lines: 3, Created: 1, Failed: 2}},
		"the last line too long":      {"", line + "\n" + atLimit(100), "1:201 2:413", ImportSummary{Lines: 2, Created: 1, Failed: 1}},
		"only errors":                 {"?results=errors", line + "\n{}\n" + line, "2:422", ImportSummary{Lines: 3, Created: 2, Failed: 1}},
		"only checked":                {"?validate_only=true", line + "\n{}\n" + `{"task":"none"}` + "\n" + `{"task":"t"}`, "1:200 2:422 3:422 4:200", ImportSummary{Lines: 4, Failed: 2}},
		"only checked, only errors":   {"?validate_only=true&results=errors", line + "\n{}", "2:422", ImportSummary{Lines: 2, Failed: 1}},
		"more than one chunk's worth": {"?results=errors", strings.Repeat(line+"\n", 50) + "{}\n" + strings.Repeat(line+"\n", 50), "51:422", ImportSummary{Lines: 101, Created: 100, Failed: 1}},
	} {
		for _, encoding := range []string{"", "gzip", "zstd"} {
			t.Run(name+" "+encoding, func(t *testing.T) {
				b := newStub()
				b.tasks["default/t"] = schema.Task{Tenant: "default", Name: "t"}
				hs := serve(t, b, func(c *Config, _ *Deps) { c.ChunkLines = 7 })
				got, summary := statuses(t, sendImport(t, hs, row.query, encoding, bytes.NewReader(pack(t, encoding, row.body))))
				if row.want != got || summary == nil || *summary != row.summary {
					t.Errorf("answers %q, summary %+v; want %q, %+v", got, summary, row.want, row.summary)
				}
				if b.largest > 7 {
					t.Errorf("a chunk of %d jobs, want at most 7", b.largest)
				}
				if strings.Contains(row.query, "validate_only") && b.batches > 0 {
					t.Error("validate_only wrote something")
				}
			})
		}
	}
}

func TestImportFaultsAreLocated(t *testing.T) {
	hs := serve(t, newStub())
	first := fmt.Sprintf(`{"key":"k","nats":{"subject":"a"}}%s`, "\n")
	lines := sendImport(t, hs, "", "", strings.NewReader(first+`{"key":"k","nats":{"subject":"b"}}`+"\n"+`{"key":7,"x":1,"nats":{}}`))
	for _, l := range lines {
		switch l.Line {
		case 2:
			if l.Error == nil || l.Error.Kind() != "key-reused" || l.Error.Errors[0].Location != "body.key" {
				t.Errorf("a key with another body: %+v, want key-reused at body.key", l.Error)
			}
		case 3:
			if l.Error == nil || len(l.Error.Errors) != 3 {
				t.Errorf("a line with three faults: %+v", l.Error)
			}
		}
	}
}

// A sender who waits for each answer before the next line gets them, and the summary at the end.
func TestImportAnswersASlowSender(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	r, w := io.Pipe()
	req, err := http.NewRequest("POST", hs.URL+importPath, r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", ndjson)
	write := func(s string) {
		if _, err := io.WriteString(w, s); err != nil {
			t.Errorf("send: %v", err)
		}
	}
	go write("{}\n" + line[:10])
	resp, err := hs.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	sc := bufio.NewScanner(resp.Body)
	next := func(want string) {
		t.Helper()
		if !sc.Scan() || !strings.HasPrefix(sc.Text(), want) {
			t.Fatalf("answer %q (%v), want %s…", sc.Text(), sc.Err(), want)
		}
	}
	next(`{"line":1,"status":422`)
	write(line[10:] + "\n")
	next(`{"line":2,"id":`)
	write(line + "\n" + line)
	next(`{"line":3,"id":`)
	_ = w.Close()
	next(`{"line":4,"id":`)
	next(`{"summary":{"lines":4,"created":3,"existing":0,"failed":1}}`)
	if sc.Scan() {
		t.Errorf("%q after the summary", sc.Text())
	}
}

func TestImportThatIsCutHasNoSummary(t *testing.T) {
	many := strings.Repeat(line+"\n", 2000)
	for _, encoding := range []string{"gzip", "zstd"} {
		t.Run(encoding, func(t *testing.T) {
			// not compressible to next to nothing, so that a cut leaves lines
			var text strings.Builder
			for i := range 10_000 {
				fmt.Fprintf(&text, `{"nats":{"subject":"a%d"},"payload":%d}`+"\n", schema.HashOf(fmt.Sprint(i)), schema.HashOf("p", fmt.Sprint(i)))
			}
			packed := pack(t, encoding, text.String())
			b := newStub()
			lines := sendImport(t, serve(t, b), "", encoding, bytes.NewReader(packed[:len(packed)*3/4]))
			last := lines[len(lines)-1]
			if last.Summary != nil || last.Error == nil || last.Line != 0 || last.Error.Kind() != "cut" {
				t.Errorf("the last line is %+v, want why it was cut", last)
			}
			checkAnswered(t, b, lines)
		})
	}
	t.Run("trailing garbage", func(t *testing.T) {
		b := newStub()
		lines := sendImport(t, serve(t, b), "", "gzip", bytes.NewReader(append(pack(t, "gzip", many), "garbage"...)))
		if last := lines[len(lines)-1]; last.Summary != nil || last.Error == nil {
			t.Errorf("the last line is %+v, want why it was cut", last)
		}
		checkAnswered(t, b, lines)
	})
}

// checkAnswered checks that the lines answered 201 are the runs that the stub holds.
func checkAnswered(t *testing.T, b *stub, lines []answerLine) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, l := range lines {
		if l.Status == 201 {
			n++
			if _, ok := b.runs[schema.RunID(l.ID)]; !ok {
				t.Errorf("line %d was answered with %s, which nobody holds", l.Line, l.ID)
			}
		}
	}
	if n == 0 || n != len(b.runs) {
		t.Errorf("%d lines answered 201, %d runs held; want as many, and some", n, len(b.runs))
	}
}

// A sender who goes away in the middle leaves what was answered, and nothing running.
func TestImportOfASenderWhoLeaves(t *testing.T) {
	b := newStub()
	var mu sync.Mutex
	handed := map[string]bool{}
	b.onBatch = func(jobs []bucketer.Job) {
		mu.Lock()
		defer mu.Unlock()
		for _, j := range jobs {
			handed[string(j.Payload)] = true
		}
	}
	hs := serve(t, b, func(c *Config, _ *Deps) { c.ChunkLines = 10 })
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, "POST", hs.URL+importPath, r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", ndjson)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(w, `{"nats":{"subject":"a"},"payload":%d}`+"\n", i+1); err != nil {
				return
			}
		}
	}()
	resp, err := hs.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(resp.Body)
	answered := 0
	for answered < 500 && sc.Scan() {
		var l answerLine
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil || l.Status != 201 {
			t.Fatalf("answer %q: %v", sc.Text(), err)
		}
		answered++
		mu.Lock()
		if !handed[fmt.Sprint(l.Line)] {
			t.Errorf("line %d was answered and never handed on", l.Line)
		}
		mu.Unlock()
	}
	leave()
	_ = resp.Body.Close()
	_ = r.CloseWithError(errors.New("left"))
	<-sent
	if answered < 500 {
		t.Fatalf("%d answers, want 500: %v", answered, sc.Err())
	}
	// goleak and hs.Close see to it that nothing goes on.
}

func TestImportEndsWhenTheServerStops(t *testing.T) {
	b := newStub()
	s, err := New(Config{}, Deps{Jobs: b, Runs: b, Tasks: b, Recurring: b, Workflows: b, Events: b, Joins: b})
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(s)
	t.Cleanup(hs.Close)
	w, answers := beginImport(t, hs)
	sc := bufio.NewScanner(answers)
	if !sc.Scan() {
		t.Fatal("no answer to the first line")
	}
	s.endImports()
	if !sc.Scan() || !strings.Contains(sc.Text(), `"error":{"type":"urn:carillon:problem:not-ready"`) {
		t.Errorf("the last line is %q, want why it ends", sc.Text())
	}
	_ = w.Close()
}

func TestImportChunkThatPanics(t *testing.T) {
	b := newStub()
	b.onBatch = func([]bucketer.Job) { panic("out of luck") }
	got, s := statuses(t, sendImport(t, serve(t, b), "", "", strings.NewReader(line+"\n"+line)))
	if got != "1:500 2:500" || s == nil || s.Failed != 2 {
		t.Errorf("answers %q, summary %+v; want both failed", got, s)
	}
}
