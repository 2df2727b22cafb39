package nats

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
)

// The requests against a real server, whose stream is made by the same few lines.
func TestDeleteStreams(t *testing.T) {
	url := cluster.NATS(t)
	if _, err := DeleteStreams(t.Context(), url); !errors.Is(err, ErrNATS) {
		t.Errorf("DeleteStreams without a stream = %v, want ErrNATS", err)
	}
	n, err := Dial(t.Context(), url)
	if err != nil {
		t.Fatalf("Dial(%s) = %v", url, err)
	}
	defer func() { _ = n.Close() }()
	if n.Version == "" {
		t.Error("the server's version is not known")
	}
	for _, name := range []string{"carillon_runs_0", "others"} {
		config := fmt.Sprintf(`{"name":%q,"subjects":["%s.>"],"storage":"memory","num_replicas":1,"discard":"new"}`, name, name)
		if err := n.Request("$JS.API.STREAM.CREATE."+name, config, nil); err != nil {
			t.Fatal(err)
		}
	}
	// the answer is the stream's acknowledgement
	if err := n.Request("carillon_runs_0.x", "hello", nil); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		if changed, before, err := Resize(t.Context(), url, 1); err != nil || changed != want || changed && before != -1 {
			t.Errorf("Resize %d = %t, %d, %v, want %t, -1", i, changed, before, err, want)
		}
	}
	if err := n.Request("carillon_runs_0.x", "more", nil); err == nil || !strings.Contains(err.Error(), "maximum bytes") {
		t.Errorf("a stream of one byte takes a message: %v, want that it is full", err)
	}
	if err := n.Request("others.x", "more", nil); err != nil {
		t.Errorf("the stream of others takes no message: %v", err)
	}
	gone, err := DeleteStreams(t.Context(), url)
	if want := (Stream{"carillon_runs_0", 1, 1, ""}); err != nil || len(gone) != 1 || gone[0] != want {
		t.Errorf("DeleteStreams = %v, %v, want %v", gone, err, want)
	}
	var info struct {
		State struct {
			Messages int `json:"messages"`
		} `json:"state"`
	}
	if err := n.Request("$JS.API.STREAM.INFO.carillon_runs_0", "", &info); !errors.Is(err, ErrNATS) {
		t.Errorf("the deleted stream answers %v, want ErrNATS", err)
	}
	if err := n.Request("$JS.API.STREAM.INFO.others", "", &info); err != nil {
		t.Errorf("the stream of others answers %v, want it to stand", err)
	}
}

func TestNATSRefusesWhatIsNone(t *testing.T) {
	rows := []struct{ name, greeting, after string }{
		{"another protocol", "220 mail.example.com ESMTP\r\n", ""},
		{"refused", `INFO {"version":"2"}` + "\r\n", "-ERR 'Authorization Violation'\r\n"},
		{"hung up", `INFO {"version":"2"}` + "\r\n", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan struct{})
			go func() {
				defer close(served)
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				defer func() { _ = conn.Close() }()
				_ = conn.SetDeadline(time.Now().Add(timeout))
				if _, err := conn.Write([]byte(row.greeting)); err != nil || !strings.HasPrefix(row.greeting, "INFO") {
					return
				}
				if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(line, "CONNECT {") {
					t.Errorf("the server was told %q, %v, want CONNECT", line, err)
				}
				_, _ = conn.Write([]byte(row.after)) // or hangs up
			}()
			if n, err := Dial(t.Context(), "nats://"+ln.Addr().String()); err == nil {
				t.Errorf("Dial = %v, nil, want an error", n)
			}
			_ = ln.Close()
			<-served
		})
	}
}

func TestAnswersComeLater(t *testing.T) {
	var out bytes.Buffer
	l := &later{delay: time.Minute, to: &out}
	in := bufio.NewReader(strings.NewReader("MSG bench.held 1 _INBOX.1 2\r\n{}\r\nPING\r\nMSG bench.held 1 _INBOX.2 0\r\n\r\nMSG bench.held 1 0\r\n\r\n"))
	if err := answerAll(in, l, func() {}, l.add); err == nil {
		t.Error("answerAll at the end of what is said = nil, want an error")
	}
	if out.String() != "PONG\r\n" {
		t.Errorf("written at once: %q, want PONG alone", out.String())
	}
	now := time.Now()
	if got := l.due(nil, now); len(got) != 0 {
		t.Errorf("due at once: %q, want nothing", got)
	}
	if got, want := string(l.due(nil, now.Add(time.Minute))), "PUB _INBOX.1 0\r\n\r\nPUB _INBOX.2 0\r\n\r\n"; got != want {
		t.Errorf("due after the delay: %q, want %q", got, want)
	}
	if got := l.due(nil, now.Add(time.Hour)); len(got) != 0 {
		t.Errorf("due again: %q, want nothing", got)
	}
}
