package server

import (
	"encoding/json"
	"testing"
)

func TestGoschedulersConfiguration(t *testing.T) {
	text, err := GoschedulerConfig{CQL: "127.0.1.1:9042", Callers: 7}.file("/src/cassandra/cassandra.cql", 1234)
	if err != nil {
		t.Fatal(err)
	}
	type database struct {
		DBConfig struct {
			Hosts    string
			PageSize int
		}
	}
	var got struct {
		SchemaPath string
		Cluster    struct {
			Address, TChannelPort string
			BootStrapServers      []string
		}
		ClusterDB, ScheduleDB database
		Poller                struct{ Interval, MaxQueryLimit int }
		HTTP                  struct{ Routines int } `json:"HttpConnector"`
		MonitoringConfig      struct{ Statsd *struct{ Enabled bool } }
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("not JSON: %v", err)
	}
	if got.SchemaPath != "/src/cassandra/cassandra.cql" || got.ClusterDB.DBConfig.Hosts != "127.0.1.1:9042" || got.ScheduleDB.DBConfig.Hosts != "127.0.1.1:9042" {
		t.Errorf("schema and databases = %q, %+v, %+v, want those given", got.SchemaPath, got.ClusterDB, got.ScheduleDB)
	}
	if c := got.Cluster; c.Address != "127.0.0.1:1234" || c.TChannelPort != "1234" || len(c.BootStrapServers) != 1 || c.BootStrapServers[0] != c.Address {
		t.Errorf("ring = %+v, want one node at 127.0.0.1:1234", c)
	}
	// A poller that looked twice a minute would make every run twice.
	if got.Poller.Interval != 60 || got.HTTP.Routines != 7 {
		t.Errorf("interval, calls at a time = %d, %d, want 60, 7", got.Poller.Interval, got.HTTP.Routines)
	}
	if got.MonitoringConfig.Statsd == nil || got.MonitoringConfig.Statsd.Enabled { // it does not start without the section
		t.Errorf("statsd = %+v, want a section that turns it off", got.MonitoringConfig.Statsd)
	}
}

func TestFreePortsDiffer(t *testing.T) {
	ports, err := freePorts(t.Context(), 2)
	if err != nil || len(ports) != 2 || ports[0] == ports[1] {
		t.Errorf("freePorts = %v, %v, want two", ports, err)
	}
}
