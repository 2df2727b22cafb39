package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// Identity is who calls, however that was found: by an API key, or by what the operator's
// configuration says of others.
type Identity struct {
	Tenant string
	// Name is how the audit log calls them, unique in the tenant. Of keys it is the key's name;
	// others have a word for their kind and a colon before it, which no key can have.
	Name string
	Role schema.Role
}

// Why a token of a provider does not say who calls.
var (
	// ErrNoGrant: the token is good, and its claims give no rights here.
	ErrNoGrant = errors.New("no grant fits the claims of the token")
	// ErrProvider: the provider did not answer, so nothing may be concluded.
	ErrProvider = errors.New("the provider of tokens does not answer")
)

// TokenError says why a token does not count. It has nothing of the token.
type TokenError struct{ Reason string } // goes on after "The token"

func (e *TokenError) Error() string { return "the token " + e.Reason }

// MaxIdentity bounds the name of an identity, bytes: it is stored with everything that it makes.
const MaxIdentity = 200

// ParseGrant reads "tenant/role": what somebody is granted that has no API key.
func ParseGrant(text string) (Identity, error) {
	tenant, role, _ := strings.Cut(strings.TrimSpace(text), "/")
	i := Identity{Tenant: tenant, Role: schema.Role(role)}
	if what := bucketer.NameFault(tenant); what != "" {
		return Identity{}, fmt.Errorf("the tenant %q %s", tenant, what)
	}
	if !slices.Contains(schema.Roles, i.Role) {
		return Identity{}, fmt.Errorf("%q is not a tenant and a role (viewer, operator or admin), such as acme/operator", text)
	}
	return i, nil
}
