package schema

import (
	"context"
	"errors"
	"strings"
)

// Durability says, where there are regions, when what was asked for is acknowledged. "" is as its
// tenant states, or else the configuration.
type Durability string

// The durabilities.
const (
	// DurableHome: once a quorum of the data centre holds it whose region serves its home. A region
	// that is lost for good loses what it had not replicated.
	DurableHome Durability = "home"
	// DurableEverywhere: once a quorum of every data centre holds it.
	DurableEverywhere Durability = "everywhere"
)

// Durabilities are all of them. Do not modify.
var Durabilities = []string{string(DurableHome), string(DurableEverywhere)}

// OfEntry returns the durability of the run of an entry: of one that says nothing it is home.
func OfEntry(s *Spec) Durability {
	if s.Everywhere {
		return DurableEverywhere
	}
	return ""
}

// TenantName is a name within a tenant.
type TenantName struct{ Tenant, Name string }

// Copies names rows of which every data centre is to have a copy.
type Copies struct {
	Entries       []EntryID      // rows of runs, with their marks and payloads
	Keys          []TenantName   // idempotency keys
	Jobs          []JobID        // rows of jobs
	Listed        []JobID        // their lines in the list of Tenant
	Tenant        string         // of Listed
	Names         []TenantName   // of jobs
	Subscriptions []Subscription // of jobs to events
	Leases        []string       // by their keys
}

// CopyStore is a store whose rows lie in the data centres of several regions.
type CopyStore interface {
	// Confirm returns nil once a quorum of every data centre holds what stands of the rows, as a
	// quorum of ours has it when it begins. It reads them everywhere; what one lacks is written to
	// it before the read is answered. So it serves plain and conditional writes alike, and may be
	// repeated.
	//
	// A row that is not there is no fault.
	//
	//	ErrUnavailable   a data centre does not answer: the rows are as they were
	Confirm(ctx context.Context, rows Copies) error
}

// ErrNotEverywhere: not every data centre can be reached that is to hold a copy. NotEverywhereError
// says which region it is, and whether anything was written.
var ErrNotEverywhere = errors.New("not held in every region")

// NotEverywhereError says that something was asked for with DurableEverywhere which could not be
// had. It is an ErrNotEverywhere; also an ErrUnknown if it was written, else an ErrUnavailable.
type NotEverywhereError struct {
	// Regions are those that do not answer: if it is not known which, all others than ours.
	Regions []string
	// Written: our region holds it, and acts by it; whether the others do is not known. To ask
	// again, with the same key, asks them again.
	Written bool
	Err     error // of the store; nil: it was not asked
}

// Error implements error.
func (e *NotEverywhereError) Error() string {
	what := "nothing was written"
	if e.Written {
		what = "it was written in this region alone"
	}
	text := "region " + strings.Join(e.Regions, " or ") + " cannot be reached, which is to hold it too (durability: everywhere): " + what
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is implements errors.Is.
func (e *NotEverywhereError) Is(target error) bool {
	switch target {
	case ErrNotEverywhere:
		return true
	case ErrUnknown:
		return e.Written
	case ErrUnavailable:
		return !e.Written
	}
	return false
}
