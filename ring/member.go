package ring

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// The roles a member may have.
const (
	RoleBucketer   = "bucketer"
	RoleDispatcher = "dispatcher"
	RoleExecutor   = "executor"
)

// roles lists every role, sorted.
var roles = []string{RoleBucketer, RoleDispatcher, RoleExecutor}

const (
	// maxMetadata is how many bytes of metadata gossip carries for each member.
	maxMetadata = 512
	// maxName bounds a member's name, in bytes.
	maxName = 128
)

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Member is one node, as the others see it. Its slices are shared: do not write to them.
type Member struct {
	// Name is unique in the ring and outlives restarts.
	Name string
	// Incarnation tells the lives of one name apart. It is drawn at start; only equality means
	// something.
	Incarnation uint64
	// Addr is where its gossip is reached, host:port.
	Addr string
	// API is the base URL of its HTTP interface; empty if it has none.
	API string
	// Roles are sorted and free of repetitions.
	Roles []string
	// Zone and Region say where it runs. A ring never spans regions.
	Zone, Region string
	// Version is the release it runs.
	Version string
	// Labels are those of its executor (schema.Labels.String); "": it has none, or executes
	// nothing.
	Labels string
	// Unhealthy: it would dispatch, but does not reach what it needs for that. Its roles lack that
	// of a dispatcher.
	Unhealthy bool
}

// Has tells whether the member has a role.
func (m Member) Has(role string) bool { return slices.Contains(m.Roles, role) }

func (m Member) equal(o Member) bool {
	return m.Name == o.Name && m.Incarnation == o.Incarnation && m.Addr == o.Addr && m.API == o.API &&
		slices.Equal(m.Roles, o.Roles) && m.Zone == o.Zone && m.Region == o.Region && m.Version == o.Version && m.Labels == o.Labels && m.Unhealthy == o.Unhealthy
}

// normal returns m with a sorted copy of its roles, each once.
func (m Member) normal() Member {
	m.Roles = slices.Clone(m.Roles)
	slices.Sort(m.Roles)
	m.Roles = slices.Compact(m.Roles)
	return m
}

func checkName(name string) error {
	if len(name) > maxName || !namePattern.MatchString(name) {
		return fmt.Errorf("name %q: want 1 to %d letters, digits, dots, dashes or underscores, a letter or digit first", name, maxName)
	}
	return nil
}

// metadata is what gossip carries for a member besides its name and address. Fields unknown to an
// older release are ignored by it, so that releases can be mixed. The names are short because the
// space is.
type metadata struct {
	Incarnation uint64   `json:"i"`
	API         string   `json:"a,omitempty"`
	Roles       []string `json:"r,omitempty"`
	Zone        string   `json:"z,omitempty"`
	Region      string   `json:"g,omitempty"`
	Version     string   `json:"v,omitempty"`
	// Leaving is set shortly before a member leaves on purpose: the gossip of memberlist v0.7.0
	// does not tell its listeners whether a member that went had left or was given up.
	Leaving bool `json:"l,omitempty"`
	// Unhealthy is Member.Unhealthy. An older release sees a member without the role of a
	// dispatcher.
	Unhealthy bool   `json:"u,omitempty"`
	Labels    string `json:"x,omitempty"`
}

// encodeMetadata returns what m tells of itself, at most maxMetadata bytes of JSON.
func encodeMetadata(m Member, leaving bool) ([]byte, error) {
	text, err := json.Marshal(metadata{
		Incarnation: m.Incarnation, API: m.API, Roles: m.Roles,
		Zone: m.Zone, Region: m.Region, Version: m.Version, Labels: m.Labels, Leaving: leaving, Unhealthy: m.Unhealthy,
	})
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	if len(text) > maxMetadata {
		return nil, fmt.Errorf("metadata (API address, roles, zone, region, version, labels) takes %d bytes, more than %d", len(text), maxMetadata)
	}
	return text, nil
}

// decodeMetadata decodes the metadata of the member called name at addr.
func decodeMetadata(name, addr string, text []byte) (m Member, leaving bool, err error) {
	if err := checkName(name); err != nil {
		return Member{}, false, err
	}
	var d metadata
	if err := json.Unmarshal(text, &d); err != nil {
		return Member{}, false, fmt.Errorf("decode metadata: %w", err)
	}
	if d.Incarnation == 0 {
		return Member{}, false, errors.New("decode metadata: no incarnation")
	}
	m = Member{
		Name: name, Incarnation: d.Incarnation, Addr: addr, API: d.API, Roles: d.Roles,
		Zone: d.Zone, Region: d.Region, Version: d.Version, Labels: d.Labels, Unhealthy: d.Unhealthy,
	}
	return m.normal(), d.Leaving, nil
}
