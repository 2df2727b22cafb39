package request

import (
	"regexp"
	"time"

	"carillon.dev/carillon/schema"
)

// HomeChangeRequest is the body of POST /v1/admin/regions/{home}/move and …/failover.
type HomeChangeRequest struct {
	To      string `json:"to"`
	Reason  string `json:"reason,omitempty"`
	Confirm string `json:"confirm,omitempty"` // the name of the home
	Plan    bool   `json:"plan,omitempty"`

	// Of a move.
	Drain *schema.Duration `json:"drain,omitempty"` // nil: DefaultDrain
	Sync  *bool            `json:"sync,omitempty"`  // nil: true
	Since schema.Duration  `json:"since,omitempty"`
	Until *schema.Duration `json:"until,omitempty"` // nil: DefaultUntil

	AcceptLag         bool `json:"accept_lag,omitempty"` // of a fail-over
	AcceptNoExecutors bool `json:"accept_no_executors,omitempty"`
}

const (
	// DefaultDrain is how long what is under way in a home may end before it is moved.
	DefaultDrain = 4 * time.Second
	// DefaultUntil is how far ahead of now the rows of a home are compared before it is moved.
	DefaultUntil = 15 * time.Minute

	maxDrain    = 5 * time.Minute
	maxCompared = 366 * 24 * time.Hour
	maxReason   = 500 // bytes
)

// HomePattern is what names of homes match: they are those of regions.
const HomePattern = `^[A-Za-z0-9]([A-Za-z0-9_-]{0,30}[A-Za-z0-9])?$`

var homeName = regexp.MustCompile(HomePattern)

// HomeChange reads by a decoder the body of a request to move a home, or with forced to fail it
// over, and whether only a plan is asked for. What is in it beyond that needs the reason, and the
// name of the home as a confirmation.
func HomeChange(d *Decoder, home string, forced bool, body []byte) (c schema.HomeChange, plan bool, err error) {
	c = schema.HomeChange{Home: home, Forced: forced}
	if !forced {
		c.Drain, c.Sync, c.Until = DefaultDrain, true, DefaultUntil
	}
	if !d.begin(body) {
		return c, false, d.err()
	}
	if !homeName.MatchString(home) {
		d.faultAt("path.home", "is not the name of a home: 1 to 32 of A-Z, a-z, 0-9, _ and -, the first and last no sign")
	}
	stated, confirm := make(map[string]bool), ""
	for i := range d.members(0) {
		name := string(d.doc.name(i))
		stated[name] = true
		switch {
		case name == "to":
			c.To = d.text(i, 64)
		case name == "reason":
			c.Reason = d.text(i, maxReason)
		case name == "confirm":
			confirm = d.string(i)
		case name == "plan":
			plan = flag(&d.fields, i)
		case name == "accept_no_executors":
			c.AcceptNoExecutors = flag(&d.fields, i)
		case name == "accept_lag" && forced:
			c.AcceptLag = flag(&d.fields, i)
		case name == "drain" && !forced:
			c.Drain = d.duration(i, 0, maxDrain).Std()
		case name == "sync" && !forced:
			c.Sync = flag(&d.fields, i)
		case name == "since" && !forced:
			c.Since = d.duration(i, 0, maxCompared).Std()
		case name == "until" && !forced:
			c.Until = d.duration(i, 0, maxCompared).Std()
		default:
			d.faultQuietly(i, "is not a field of this request")
		}
	}
	d.require(0, stated["to"], "to")
	if !plan {
		if c.Reason == "" {
			d.faultAt("body.reason", "is missing: say why, in your words")
		}
		if confirm != home {
			d.faultAt("body.confirm", "must be the name of the home: it has another region serve it")
		}
	}
	return c, plan, d.err()
}

// flag returns the truth value that node i is.
func flag(d *fields, i int32) bool {
	if !d.is(i, kindTrue) && !d.is(i, kindFalse) {
		d.fault(i, "must be true or false")
	}
	return d.is(i, kindTrue)
}

// regionChoice reads the name of a region, or an object of name and require.
func regionChoice(d *fields, i int32) (c schema.RegionChoice) {
	if !d.is(i, kindObject) {
		if !d.is(i, kindString) {
			d.fault(i, `must be the name of a region, or an object such as {"name": "eu", "require": true}`)
			return c
		}
		c.Name = d.checked(i, regionFault)
		return c
	}
	for m := range d.members(i) {
		switch string(d.doc.name(m)) {
		case "name":
			c.Name = d.checked(m, regionFault)
		case "require":
			if c.Require = d.is(m, kindTrue); !c.Require && !d.is(m, kindFalse) {
				d.fault(m, "must be true or false")
			}
		default:
			d.faultQuietly(m, "is not a field of a region")
		}
	}
	return c
}
