package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// A Status names every member with its process and addresses. As JSON it is what tools read, so its
// fields may grow and not change. The pid of a stopped member is 0.
type Status struct {
	Carillon  []CarillonStatus  `json:"carillon"`
	Cassandra []CassandraStatus `json:"cassandra"`
	NATS      []NATSStatus      `json:"nats"`
}

// A CarillonStatus is the part of a Status about one Carillon node.
type CarillonStatus struct {
	Name  string   `json:"name"`
	PID   int      `json:"pid"`
	State State    `json:"state"`
	Roles []string `json:"roles"`
	API   string   `json:"api"` // base URL
}

// A CassandraStatus is the part of a Status about one Cassandra node.
type CassandraStatus struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	State State  `json:"state"`
	CQL   string `json:"cql"` // "ip:port"
}

// A NATSStatus is the part of a Status about one NATS server.
type NATSStatus struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	State State  `json:"state"`
	URL   string `json:"url"`
}

// Status checks every member's process. The lists are sorted by name and never nil.
func (c *Cluster) Status() Status {
	s := Status{Carillon: []CarillonStatus{}, Cassandra: []CassandraStatus{}, NATS: []NATSStatus{}}
	for _, m := range c.plan.members() {
		id, state := c.process(m)
		pid := id.PID
		if state == Stopped {
			pid = 0
		}
		name, addr := m.name(), c.address(m)
		switch m.kind {
		case kindCarillon:
			s.Carillon = append(s.Carillon, CarillonStatus{name, pid, state, c.plan.Spec.rolesOf(m.index), addr})
		case kindCassandra:
			s.Cassandra = append(s.Cassandra, CassandraStatus{name, pid, state, addr})
		case kindNATS:
			s.NATS = append(s.NATS, NATSStatus{name, pid, state, addr})
		}
	}
	return s
}

// API returns the base URL of the first Carillon node that takes jobs in, and "" if there is none.
func (s Status) API() string {
	for _, m := range s.Carillon {
		if slices.Contains(m.Roles, "bucketer") {
			return m.API
		}
	}
	return ""
}

// PIDs returns the process of each member by its name; 0 = it has none now.
func (s Status) PIDs() map[string]int {
	pids := make(map[string]int)
	for _, m := range s.Carillon {
		pids[m.Name] = m.PID
	}
	for _, m := range s.Cassandra {
		pids[m.Name] = m.PID
	}
	for _, m := range s.NATS {
		pids[m.Name] = m.PID
	}
	return pids
}

// WriteJSON writes the status for programs.
func (s Status) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

// WriteTable writes the status for people.
func (s Status) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, state State, pid int, addr, more string) {
		shown := strconv.Itoa(pid)
		if pid == 0 {
			shown = "-"
		}
		// A tabwriter keeps its first error for Flush.
		_, _ = fmt.Fprintln(t, strings.TrimRight(strings.Join([]string{name, string(state), shown, addr, more}, "\t"), "\t"))
	}
	_, _ = fmt.Fprintln(t, "NAME\tSTATE\tPID\tADDRESS\tROLES")
	for _, m := range s.Carillon {
		row(m.Name, m.State, m.PID, m.API, strings.Join(m.Roles, ","))
	}
	for _, m := range s.Cassandra {
		row(m.Name, m.State, m.PID, m.CQL, "")
	}
	for _, m := range s.NATS {
		row(m.Name, m.State, m.PID, m.URL, "")
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// CQL returns the address ("ip:port") of every Cassandra node, running or not.
func (c *Cluster) CQL() []string { return c.plan.cqlAddrs() }

// NATSURLs returns the URL of every NATS server, running or not.
func (c *Cluster) NATSURLs() []string { return c.plan.natsURLs() }

// APIs returns the base URL of every Carillon node, running or not.
func (c *Cluster) APIs() []string {
	urls := make([]string, c.plan.Spec.Nodes)
	for i := range urls {
		urls[i] = apiURL(c.plan, i+1)
	}
	return urls
}
