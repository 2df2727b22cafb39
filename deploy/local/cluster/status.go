package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"carillon.dev/carillon/deploy/local/wan"
)

// A Status names every member with its process and addresses. As JSON it is what tools read, so its
// fields may grow and not change. The pid of a stopped member is 0.
type Status struct {
	Carillon  []MemberStatus `json:"carillon"`
	Cassandra []MemberStatus `json:"cassandra"`
	NATS      []MemberStatus `json:"nats"`
}

// A MemberStatus is the part of a Status about one member. It has the address of its kind alone.
type MemberStatus struct {
	Name  string   `json:"name"`
	PID   int      `json:"pid"`
	State State    `json:"state"`
	Node  string   `json:"node,omitempty"`  // what a Carillon node calls itself: in a region, its name follows the region's
	Roles []string `json:"roles,omitempty"` // of a Carillon node
	API   string   `json:"api,omitempty"`   // base URL of a Carillon node
	CQL   string   `json:"cql,omitempty"`   // "ip:port" of a Cassandra node
	URL   string   `json:"url,omitempty"`   // of a NATS server
}

// Status checks every member's process. The lists are sorted by name and never nil.
func (c *Cluster) Status() Status {
	s := Status{Carillon: []MemberStatus{}, Cassandra: []MemberStatus{}, NATS: []MemberStatus{}}
	for _, m := range c.plan.members() {
		id, state := c.process(m)
		is := MemberStatus{Name: m.name(), State: state}
		if state != Stopped {
			is.PID = id.PID
		}
		switch m.kind {
		case kindCarillon:
			is.Node, is.Roles, is.API = c.plan.nodeName(m.index), c.plan.Spec.rolesOf(m.index), c.address(m)
			s.Carillon = append(s.Carillon, is)
		case kindCassandra:
			is.CQL = c.address(m)
			s.Cassandra = append(s.Cassandra, is)
		case kindNATS:
			is.URL = c.address(m)
			s.NATS = append(s.NATS, is)
		}
	}
	return s
}

// members returns all, Carillon nodes first.
func (s Status) members() []MemberStatus { return slices.Concat(s.Carillon, s.Cassandra, s.NATS) }

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
	for _, m := range s.members() {
		pids[m.Name] = m.PID
	}
	return pids
}

// WriteJSON writes the status for programs.
func (s Status) WriteJSON(w io.Writer) error { return writeJSON(w, s) }

func writeJSON(w io.Writer, status any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(status); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

// WriteTable writes the status for people.
func (s Status) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	// A tabwriter keeps its first error for Flush.
	_, _ = fmt.Fprintln(t, memberColumns)
	for _, m := range s.members() {
		_, _ = fmt.Fprintln(t, m.row())
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

const memberColumns = "NAME\tSTATE\tPID\tADDRESS\tROLES"

// row is the member's row of a table.
func (m MemberStatus) row() string {
	pid := strconv.Itoa(m.PID)
	if m.PID == 0 {
		pid = "-"
	}
	cells := []string{m.Name, string(m.State), pid, m.API + m.CQL + m.URL, strings.Join(m.Roles, ",")}
	return strings.TrimRight(strings.Join(cells, "\t"), "\t")
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

// A RegionsStatus is the Status of every region, and of the links between them. There are no links
// if the hub does not run.
type RegionsStatus struct {
	Host    string         `json:"host,omitempty"` // the address of this machine that jobs of all regions may call
	Regions []RegionStatus `json:"regions"`
	Links   []wan.Link     `json:"links"`
}

// A RegionStatus is the part of a RegionsStatus about one region.
type RegionStatus struct {
	Name string `json:"name"`
	Status
}

// Status checks every member's process, and asks the hub.
func (r *Regions) Status(ctx context.Context) RegionsStatus {
	s := RegionsStatus{Host: wan.Host(r.plan.Network), Links: []wan.Link{}}
	for _, c := range r.sites {
		s.Regions = append(s.Regions, RegionStatus{c.plan.Site.Name, c.Status()})
	}
	if links, err := r.Control().Links(ctx); err == nil && len(r.running()) > 0 {
		s.Links = links
	}
	return s
}

// WriteJSON writes the status for programs.
func (s RegionsStatus) WriteJSON(w io.Writer) error { return writeJSON(w, s) }

// WriteTable writes the status for people.
func (s RegionsStatus) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	// A tabwriter keeps its first error for Flush.
	_, _ = fmt.Fprintln(t, memberColumns)
	for _, r := range s.Regions {
		for _, m := range r.members() {
			m.Name = r.Name + "/" + m.Name
			_, _ = fmt.Fprintln(t, m.row())
		}
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	_, _ = fmt.Fprintln(t, "\nLINK\tSTATE\tDELAY\tFRAMES\tBYTES\tLOST")
	for _, l := range s.Links {
		state := "up"
		if l.Cut {
			state = "cut"
		}
		_, _ = fmt.Fprintf(t, "%s to %s\t%s\t%s\t%d\t%d\t%d\n", l.From, l.To, state, l.Delay, l.Frames, l.Bytes, l.Lost)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// RegionAPI is where a region is asked.
type RegionAPI struct {
	Region string
	API    string // base URL of a node that takes jobs in
	Calls  string // the address that its jobs may call
}

// Regional returns nil: there are no regions.
func (Status) Regional() []RegionAPI { return nil }

// Regional returns where each region is asked that has a node which takes jobs in.
func (s RegionsStatus) Regional() (all []RegionAPI) {
	for _, r := range s.Regions {
		if api := r.API(); api != "" {
			all = append(all, RegionAPI{r.Name, api, s.Host})
		}
	}
	return all
}

// API returns the base URL of a node that takes jobs in, of the first region that has one.
func (s RegionsStatus) API() string {
	for _, r := range s.Regions {
		if api := r.API(); api != "" {
			return api
		}
	}
	return ""
}
