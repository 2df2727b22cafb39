package request

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// Bounds of how a call shows who makes it.
const (
	maxUser       = 255 // bytes of a user's name, or of a client's id
	maxScopes     = 32
	maxScope      = 255 // bytes
	maxParams     = 16
	maxParamBytes = 2 << 10 // their names and values together
	maxFunction   = 170     // bytes of a Lambda function's name or ARN
)

var invocations = []string{schema.LambdaSync, schema.LambdaAsync}

// ownParams are parameters of a request for a token that its fields state, or that would hold a
// secret.
var ownParams = []string{
	"assertion", "client_assertion", "client_assertion_type", "client_id", "client_secret", "code", "grant_type", "password", "refresh_token", "scope", "username",
}

// signatureHeaders are the headers of a signature of AWS.
var signatureHeaders = []string{"authorization", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"}

// authKinds are the fields of http.auth, of which exactly one is stated.
var authKinds = []string{"bearer", "basic", "header", "oauth2_client_credentials", "aws_sigv4", "mtls", "body_field"}

// Whatever is wrong with a field of auth, its value is not said back: somebody may have put the
// secret itself there.

// secretRef returns the name of a secret that node i is.
func (w *workReader) secretRef(i int32) string {
	return w.quiet(i, func(s string) string {
		if what := bucketer.NameFault(s); what != "" {
			return "must be the name of a secret, which " + what
		}
		return ""
	})
}

// quiet returns the string that node i is. Check says what is wrong with it, or "".
func (w *workReader) quiet(i int32, check func(string) string) string {
	d := w.d
	if !d.is(i, kindString) {
		d.faultQuietly(i, "must be a string")
		return ""
	}
	s := string(d.doc.stringOf(i))
	if what := check(s); what != "" {
		d.faultQuietly(i, "%s", what)
	}
	return s
}

// record reads the members of object i into the fields, of which those that are required must be
// there. what names the object in faults.
func (w *workReader) record(i int32, what string, required []string, fields map[string]func(c int32)) {
	d, seen := w.d, make(map[string]bool, len(fields))
	if !d.is(i, kindObject) {
		d.faultQuietly(i, "must be an object")
		return
	}
	for c := range d.members(i) {
		name := string(d.doc.name(c))
		read, known := fields[name]
		if !known {
			d.faultQuietly(c, "is not a field of %s", what)
			continue
		}
		seen[name] = true
		read(c)
	}
	for _, name := range required {
		d.require(i, seen[name], name)
	}
}

// auth reads http.auth. What it says together with other fields is checked by checkAuth.
func (w *workReader) auth(i int32) *schema.HTTPAuth {
	d, a := w.d, new(schema.HTTPAuth)
	kinds := 0
	read := map[string]func(c int32){
		"bearer": func(c int32) { a.Bearer = w.bearer(c) }, "basic": func(c int32) { a.Basic = w.basic(c) }, "header": func(c int32) { a.Header = w.headerAuth(c) },
		"oauth2_client_credentials": func(c int32) { a.OAuth2 = w.clientCredentials(c) }, "aws_sigv4": func(c int32) { a.SigV4 = w.sigV4(c) }, "mtls": func(c int32) { a.MTLS = w.mtls(c) },
		"body_field": func(c int32) { a.Field = w.bodyField(c) },
	}
	for name, f := range read {
		read[name] = func(c int32) { kinds++; f(c) }
	}
	w.record(i, "auth", nil, read)
	if kinds != 1 && d.is(i, kindObject) {
		d.faultQuietly(i, "must have exactly one of %s", strings.Join(authKinds, ", "))
	}
	return a
}

func (w *workReader) bearer(i int32) *schema.BearerAuth {
	a := new(schema.BearerAuth)
	w.record(i, "bearer", []string{"secret"}, map[string]func(int32){
		"secret": func(c int32) { a.Secret = w.secretRef(c) },
	})
	return a
}

func (w *workReader) basic(i int32) *schema.BasicAuth {
	a := new(schema.BasicAuth)
	w.record(i, "basic", []string{"username", "secret"}, map[string]func(int32){
		"username": func(c int32) {
			a.Username = w.quiet(c, func(s string) string {
				if strings.Contains(s, ":") {
					return "must not hold a colon"
				}
				return userFault(s)
			})
		},
		"secret": func(c int32) { a.Secret = w.secretRef(c) },
	})
	return a
}

// userFault says what is wrong with the name of a user, or the id of a client, or "".
func userFault(s string) string {
	switch {
	case s == "" || len(s) > maxUser:
		return "must be 1 to " + strconv.Itoa(maxUser) + " bytes long"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "must not hold control characters"
	}
	return ""
}

func (w *workReader) headerAuth(i int32) *schema.HeaderAuth {
	a := new(schema.HeaderAuth)
	w.record(i, "header", []string{"name", "secret"}, map[string]func(int32){
		"name": func(c int32) {
			a.Name = w.quiet(c, func(s string) string {
				if !isToken(s) || len(s) > maxUser {
					return "must be a valid header name"
				}
				if isOwnHeader(s) || strings.EqualFold(s, "content-type") {
					return "is set by Carillon and cannot be stated"
				}
				return ""
			})
		},
		"secret": func(c int32) { a.Secret = w.secretRef(c) },
	})
	return a
}

func (w *workReader) bodyField(i int32) *schema.BodyFieldAuth {
	a := new(schema.BodyFieldAuth)
	w.record(i, "body_field", []string{"name", "secret"}, map[string]func(int32){
		"name":   func(c int32) { a.Name = w.quiet(c, userFault) },
		"secret": func(c int32) { a.Secret = w.secretRef(c) },
	})
	return a
}

func (w *workReader) clientCredentials(i int32) *schema.ClientCredentials {
	a := new(schema.ClientCredentials)
	w.record(i, "oauth2_client_credentials", []string{"token_url", "client_id", "secret"}, map[string]func(int32){
		"token_url": func(c int32) { a.TokenURL = w.quiet(c, urlFault) },
		"client_id": func(c int32) { a.ClientID = w.quiet(c, userFault) },
		"secret":    func(c int32) { a.Secret = w.secretRef(c) },
		"scopes":    func(c int32) { a.Scopes = w.scopes(c) },
		"params":    func(c int32) { a.Params = w.params(c) },
	})
	return a
}

func (w *workReader) scopes(i int32) []string {
	d := w.d
	if !d.is(i, kindArray) {
		d.faultQuietly(i, "must be an array of strings")
		return nil
	}
	var scopes []string
	for c := range d.allMembers(i) {
		if len(scopes) == maxScopes {
			d.faultQuietly(i, "must be at most %d", maxScopes)
			return nil
		}
		scopes = append(scopes, w.quiet(c, func(s string) string {
			if s == "" || len(s) > maxScope || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }) {
				return "must be 1 to " + strconv.Itoa(maxScope) + " printable ASCII characters without space, quote and backslash"
			}
			return ""
		}))
	}
	return scopes
}

// params reads further parameters of a request for a token, such as audience.
func (w *workReader) params(i int32) map[string]string {
	d, size := w.d, 0
	if !d.is(i, kindObject) {
		d.faultQuietly(i, "must be an object of strings")
		return nil
	}
	params := make(map[string]string)
	for c := range d.members(i) {
		name := string(d.doc.name(c))
		switch {
		case name == "":
			d.faultQuietly(c, "has no name")
		case slices.Contains(ownParams, strings.ToLower(name)):
			d.faultQuietly(c, "cannot be stated here: it is what other fields say, or a secret")
		case len(params) == maxParams:
			d.faultQuietly(i, "must be at most %d", maxParams)
			return nil
		}
		params[name] = w.quiet(c, func(string) string { return "" })
		size += len(name) + len(params[name])
	}
	if size > maxParamBytes {
		d.faultQuietly(i, "must be at most %d bytes, names and values together", maxParamBytes)
	}
	if len(params) == 0 {
		return nil
	}
	return params
}

func (w *workReader) sigV4(i int32) *schema.SigV4Auth {
	a := new(schema.SigV4Auth)
	w.record(i, "aws_sigv4", []string{"region", "service", "access_key_id", "secret"}, map[string]func(int32){
		"region":               func(c int32) { a.Region = w.quiet(c, labelFault) },
		"service":              func(c int32) { a.Service = w.quiet(c, labelFault) },
		"access_key_id":        func(c int32) { a.AccessKeyID = w.quiet(c, accessKeyFault) },
		"secret":               func(c int32) { a.Secret = w.secretRef(c) },
		"session_token_secret": func(c int32) { a.SessionTokenSecret = w.secretRef(c) },
	})
	return a
}

// labelFault says what is wrong with the name of a region or service of AWS, or "". It becomes part
// of a host's name.
func labelFault(s string) string {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' ||
		strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }) {
		return "must be 1 to 63 characters of a-z, 0-9 and '-', such as eu-central-1"
	}
	return ""
}

// accessKeyFault says what is wrong with the id of an access key, or "". A secret access key, which
// has letters in lower case, is none.
func accessKeyFault(s string) string {
	if len(s) < 16 || len(s) > 128 || strings.ContainsFunc(s, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') }) {
		return "must be 16 to 128 characters of A-Z and 0-9: the id of an access key, not the key"
	}
	return ""
}

func (w *workReader) mtls(i int32) *schema.MTLSAuth {
	a := new(schema.MTLSAuth)
	w.record(i, "mtls", []string{"certificate_secret", "key_secret"}, map[string]func(int32){
		"certificate_secret": func(c int32) { a.CertificateSecret = w.secretRef(c) },
		"key_secret":         func(c int32) { a.KeySecret = w.secretRef(c) },
		"ca_secret":          func(c int32) { a.CASecret = w.secretRef(c) },
	})
	return a
}

// checkAuth checks what node i, http.auth, says together with the other fields of the call.
func (w *workReader) checkAuth(i int32, h *schema.HTTPTarget) {
	a := h.Auth
	own := func(string) bool { return false }
	switch {
	case a.Bearer != nil, a.Basic != nil, a.OAuth2 != nil:
		own = func(name string) bool { return name == "authorization" }
	case a.Header != nil:
		own = func(name string) bool { return name == strings.ToLower(a.Header.Name) }
	case a.SigV4 != nil:
		own = func(name string) bool { return slices.Contains(signatureHeaders, name) }
	case a.Field != nil:
		if h.Body == "none" {
			w.d.faultQuietly(i, "has body_field, and there is no body")
		}
	case a.MTLS != nil:
		if h.URLSecret == "" && !strings.HasPrefix(strings.ToLower(h.URL), "https:") { // a secret is looked at when the call is made
			w.d.faultQuietly(i, "has mtls, which needs an https URL")
		}
	}
	for name := range h.Headers {
		if own(strings.ToLower(name)) {
			w.d.faultQuietly(i, "sets the header %s, which headers state as well", strings.ToLower(name))
			return
		}
	}
}

func (w *workReader) lambda(i int32) *schema.LambdaTarget {
	l := new(schema.LambdaTarget)
	w.record(i, "lambda", []string{"function", "region", "credentials"}, map[string]func(int32){
		"function":    func(c int32) { l.Function = w.quiet(c, functionFault) },
		"region":      func(c int32) { l.Region = w.quiet(c, labelFault) },
		"invocation":  func(c int32) { l.Invocation = w.d.oneOf(c, invocations) },
		"credentials": func(c int32) { l.Credentials = w.secretRef(c) },
		"endpoint":    func(c int32) { l.Endpoint = w.quiet(c, plainURLFault) },
	})
	return l
}

// functionFault says what is wrong with a function's name or ARN, or "".
func functionFault(s string) string {
	if s == "" || len(s) > maxFunction || strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_:$", r)
	}) {
		return "must be a function's name or ARN, with a version or alias after a colon: 1 to " + strconv.Itoa(maxFunction) + " characters"
	}
	return ""
}
