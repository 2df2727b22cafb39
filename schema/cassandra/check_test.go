package cassandra

import (
	"maps"
	"strings"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	good := map[string]string{
		"storage_compatibility_mode": "NONE", "batch_size_warn_threshold": "256KiB", "batch_size_fail_threshold": "1MiB", "paxos_variant": "v2",
	}
	with := func(name, value string) map[string]string {
		m := maps.Clone(good)
		m[name] = value
		return m
	}
	writes := func(sync, n string) map[string]string {
		m := with("commitlog_sync", sync)
		m["concurrent_writes"] = n
		return m
	}
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name          string
		server        server
		now           time.Time
		batch         int
		warning, gone string // parts of the only warning and fault; "" = none
	}{
		{"as wanted", server{version: "5.0.6", settings: good}, now, maxBatchBytes, "", ""},
		{"newer", server{version: "5.1-beta1", settings: good}, now, maxBatchBytes, "", ""},
		{"4.1", server{version: "4.1.3", settings: good}, now, maxBatchBytes, "", "unified compaction"},
		{"4.0", server{version: "4.0.11", settings: good}, now, maxBatchBytes, "", "at least 4.1"},
		{"odd version", server{version: "x", settings: good}, now, maxBatchBytes, "cannot be understood", ""},
		{
			"2038, far",
			server{version: "5.0.6", settings: with("storage_compatibility_mode", "CASSANDRA_4")},
			now, maxBatchBytes,
			"storage_compatibility_mode", "",
		},
		{
			"2038, within what jobs may be due",
			server{version: "5.0.6", settings: with("storage_compatibility_mode", "UPGRADING")},
			now.AddDate(2, 0, 0), maxBatchBytes, "", "ten years ahead",
		},
		{
			"small batches",
			server{version: "5.0.6", settings: with("batch_size_fail_threshold", "50KiB")},
			now, 25 << 10,
			"batches are cut to 25 KiB", "",
		},
		{"tiny batches", server{version: "5.0.6", settings: with("batch_size_fail_threshold", "1KiB")}, now, 512, "", "batch_size_fail_threshold"},
		{"loud batches", server{version: "5.0.6", settings: with("batch_size_warn_threshold", "5KiB")}, now, maxBatchBytes, "batch_size_warn_threshold", ""},
		{"old paxos", server{version: "5.0.6", settings: with("paxos_variant", "v1")}, now, maxBatchBytes, "paxos_variant", ""},
		{"few synced writes", server{version: "5.0.6", settings: writes("group", "32")}, now, maxBatchBytes, "concurrent_writes is 32", ""},
		{"few synced writes, each on its own", server{version: "5.0.6", settings: writes("batch", "127")}, now, maxBatchBytes, "concurrent_writes is 127", ""},
		{"enough synced writes", server{version: "5.0.6", settings: writes("group", "128")}, now, maxBatchBytes, "", ""},
		{"few writes that wait for no sync", server{version: "5.0.6", settings: writes("periodic", "32")}, now, maxBatchBytes, "", ""},
		{"clock ahead", server{version: "5.0.6", settings: good, offset: time.Second}, now, maxBatchBytes, "clock is 1s", ""},
		{"clock behind", server{version: "5.0.6", settings: good, offset: -time.Second}, now, maxBatchBytes, "clock is -1s", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			batch, warnings, err := test.server.judge(test.now)
			if test.gone == "" && (err != nil || batch != test.batch) || test.gone != "" && (err == nil || !strings.Contains(err.Error(), test.gone)) {
				t.Errorf("judge: got %d, %v, want %d, fault %q", batch, err, test.batch, test.gone)
			}
			got := strings.Join(warnings, "\n")
			if (got == "") != (test.warning == "") || !strings.Contains(got, test.warning) {
				if test.gone == "" {
					t.Errorf("judge: got warnings %q, want %q", got, test.warning)
				}
			}
		})
	}
}

// TestCheckOfTheTestServer: the profile that tests run on is what is wanted.
func TestCheckOfTheTestServer(t *testing.T) {
	s := openTest(t)
	warnings, err := s.Check(t.Context())
	if err != nil || len(warnings) != 0 {
		t.Errorf("Check: got %q, %v, want nothing", warnings, err)
	}
}

func TestParseSize(t *testing.T) {
	for _, test := range []struct {
		text string
		want int
		ok   bool
	}{{"50KiB", 50 << 10, true}, {"1MiB", 1 << 20, true}, {"2GiB", 2 << 30, true}, {"77B", 77, true}, {"12", 12, true}, {"", 0, false}, {"xKiB", 0, false}, {"-1KiB", 0, false}} {
		if got, ok := parseSize(test.text); ok != test.ok || ok && got != test.want {
			t.Errorf("parseSize(%q): got %d, %v, want %d, %v", test.text, got, ok, test.want, test.ok)
		}
	}
}
