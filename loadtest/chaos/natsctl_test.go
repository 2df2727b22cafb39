package chaos

import (
	"bufio"
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
	if _, err := deleteStreams(t.Context(), url); !errors.Is(err, errNATS) {
		t.Errorf("deleteStreams without a stream = %v, want errNATS", err)
	}
	n, err := dialNATS(t.Context(), url)
	if err != nil {
		t.Fatalf("dialNATS(%s) = %v", url, err)
	}
	defer func() { _ = n.close() }()
	if n.version == "" {
		t.Error("the server's version is not known")
	}
	for _, name := range []string{"carillon_runs_0", "others"} {
		config := fmt.Sprintf(`{"name":%q,"subjects":["%s.>"],"storage":"memory","num_replicas":1}`, name, name)
		if err := n.request("$JS.API.STREAM.CREATE."+name, config, nil); err != nil {
			t.Fatal(err)
		}
	}
	// the answer is the stream's acknowledgement
	if err := n.request("carillon_runs_0.x", "hello", nil); err != nil {
		t.Fatal(err)
	}
	gone, err := deleteStreams(t.Context(), url)
	if want := (StreamInfo{"carillon_runs_0", 1, 1, ""}); err != nil || len(gone) != 1 || gone[0] != want {
		t.Errorf("deleteStreams = %v, %v, want %v", gone, err, want)
	}
	var info struct {
		State struct {
			Messages int `json:"messages"`
		} `json:"state"`
	}
	if err := n.request("$JS.API.STREAM.INFO.carillon_runs_0", "", &info); !errors.Is(err, errNATS) {
		t.Errorf("the deleted stream answers %v, want errNATS", err)
	}
	if err := n.request("$JS.API.STREAM.INFO.others", "", &info); err != nil {
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
				_ = conn.SetDeadline(time.Now().Add(natsTimeout))
				if _, err := conn.Write([]byte(row.greeting)); err != nil || !strings.HasPrefix(row.greeting, "INFO") {
					return
				}
				if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(line, "CONNECT {") {
					t.Errorf("the server was told %q, %v, want CONNECT", line, err)
				}
				_, _ = conn.Write([]byte(row.after)) // or hangs up
			}()
			if n, err := dialNATS(t.Context(), "nats://"+ln.Addr().String()); err == nil {
				t.Errorf("dialNATS = %v, nil, want an error", n)
			}
			_ = ln.Close()
			<-served
		})
	}
}
