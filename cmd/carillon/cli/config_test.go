package cli

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

// The logger of a node adds trace ids and bounds storms; FlushLog says what was left out.
func TestLoggerOfANode(t *testing.T) {
	was := slog.Default()
	defer slog.SetDefault(was)
	var out bytes.Buffer
	log := NewLogger(&out, config.Log{Level: "info", Format: "json"})
	id := schema.MakeEntryID(time.Now(), 1, 2)
	for range 100 {
		log.With("part", "executor").Info("an attempt failed", "run", id)
	}
	FlushLog(log)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) > 50 || !strings.Contains(lines[0], `"trace_id":"`+strings.ReplaceAll(id.String(), "-", "")) {
		t.Errorf("%d lines, the first %s: want few, with a trace id", len(lines), lines[0])
	}
	var last struct {
		Msg, Like string
		Count     int
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Like != "an attempt failed" || last.Count != 100-(len(lines)-1) {
		t.Errorf("the last line is %s (%v), want how many were left out", lines[len(lines)-1], err)
	}
}
