package bench

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAddressesHoldAllCalls(t *testing.T) {
	rows := []struct {
		target target
		n      int
		want   int
	}{{httpTarget, 100, 1}, {httpTarget, 18_500, 11}, {h2Target, 100_000, 4}, {natsTarget, 100_000, 0}}
	for _, row := range rows {
		if got := addressesFor(row.target, row.n); got != row.want {
			t.Errorf("addressesFor(%s, %d) = %d, want %d", row.target, row.n, got, row.want)
		}
	}
	seen := map[string]bool{}
	for i := range 300 {
		host := heldHost(i)
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() || strings.HasPrefix(host, "127.0.") || seen[host] {
			t.Errorf("heldHost(%d) = %s, want another address of the loopback interface, and none of a cluster", i, host)
		}
		seen[host] = true
	}
}

func TestVariablesAreSetBack(t *testing.T) {
	t.Setenv("CARILLON_LOAD_A", "was")
	back, err := setenv(map[string]string{"CARILLON_LOAD_A": "is", "CARILLON_LOAD_B": "new"})
	if err != nil || os.Getenv("CARILLON_LOAD_A") != "is" || os.Getenv("CARILLON_LOAD_B") != "new" {
		t.Fatalf("setenv = %v, A %q, B %q, want both set", err, os.Getenv("CARILLON_LOAD_A"), os.Getenv("CARILLON_LOAD_B"))
	}
	if err := back(); err != nil {
		t.Fatal(err)
	}
	if _, ok := os.LookupEnv("CARILLON_LOAD_B"); ok || os.Getenv("CARILLON_LOAD_A") != "was" {
		t.Errorf("set back: A %q, B there %t, want was, false", os.Getenv("CARILLON_LOAD_A"), ok)
	}
}

func TestLinesOfFlightsAndCompanies(t *testing.T) {
	j := jobs{
		n: 3, from: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), source: "s1", target: httpTarget, url: "http://nobody",
		urls: []string{"http://a/work-1s", "http://b/work-1s"}, more: `"timeout":"3s",`,
	}
	const due = `,"schedule":{"at":"2026-11-21T10:00:00.000Z"}}` + "\n"
	for line, want := range map[int]string{
		1: `{"timeout":"3s","http":{"url":"http://b/work-1s/s1/1"}` + due,
		2: `{"timeout":"3s","http":{"url":"http://a/work-1s/s1/2"}` + due,
	} {
		if got := string(j.appendLine(nil, line)); got != want {
			t.Errorf("line %d is %swant %s", line, got, want)
		}
	}
	j.target, j.subject = natsTarget, heldSubject
	if got, want := string(j.appendLine(nil, 1)), `{"timeout":"3s","nats":{"subject":"bench.held"}`+due; got != want {
		t.Errorf("a line of nats is %swant %s", got, want)
	}
}

func TestTablesOfFlightAndHarm(t *testing.T) {
	all := []*Result{
		{Protocol: "F", System: "carillon", Variant: "nats", Round: 1, N: 100_000, Flight: &InFlight{
			Hold: 60, Peak: 99_999, Succeeded: 100_000, RSS: 4096, Heap: 20480, RenewalsAlone: 0.33, Renewals: -1,
			LatenessAlone: &Lateness{P99: 5}, Lateness: &Lateness{P99: 7.5},
		}},
	}
	for round, p99s := range [][2]float64{{10, 30}, {10, 11}, {20, 20}} {
		all = append(all,
			&Result{Protocol: "H", System: "carillon", Rate: 500, Round: round + 1, Lateness: &Lateness{P99: p99s[0]}, Harm: &Interference{Kind: "hang"}},
			&Result{
				Protocol: "H", System: "carillon", Rate: 500, Round: round + 1, Lateness: &Lateness{P99: p99s[1]}, Missed: 1,
				Harm: &Interference{Kind: "hang", Rate: 400, Ratio: p99s[1] / p99s[0]},
			})
	}
	var b bytes.Buffer
	if err := WriteGoals(&b, all); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| carillon nats, held 60 s, round 1 | 100,000, 99,999, 100,000 | 4,096 B, 20 KiB | 0.33, not told | 5 ms, 7.5 ms |\n",
		"| hang (carillon) | 500/s, 400/s, 3 | 10 ms, 20 ms | 1.1 ×, 3 × | 3, 0 |\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("WriteGoals lacks %q:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := WriteGoals(&b, nil); err != nil || strings.Contains(b.String(), "F: runs") || strings.Contains(b.String(), "H: beside") {
		t.Errorf("WriteGoals of nothing = %v, want no tables of F and H:\n%s", err, b.String())
	}
}

func TestCertificateIsForTheSinksAddresses(t *testing.T) {
	trusted, sink := filepath.Join(t.TempDir(), "t.pem"), filepath.Join(t.TempDir(), "s.pem")
	if err := writeCertificate(trusted, sink, time.Now()); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(sink, sink)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(trusted)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	for i := range addressesFor(h2Target, 0) {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: heldHost(i)}); err != nil {
			t.Errorf("the certificate for %s: %v", heldHost(i), err)
		}
	}
}
