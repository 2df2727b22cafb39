package request

import (
	"net/mail"
	"strconv"
	"strings"

	"carillon.dev/carillon/schema"
)

// maxAddress is the longest address of a mail, with the name of its owner, bytes.
const maxAddress = 254

// email reads to whom mails go.
func (r *notificationReader) email(i int32) *schema.EmailTarget {
	t := new(schema.EmailTarget)
	var from int32
	r.record(i, "email", []string{"to"}, map[string]func(int32){
		"to": func(c int32) {
			r.each(c, schema.MaxEmailRecipients, func(a int32) { t.To = append(t.To, r.quiet(a, addressFault)) })
			if r.d.is(c, kindArray) && len(t.To) == 0 {
				r.d.faultQuietly(c, "must not be empty")
			}
		},
		"from":   func(c int32) { from, t.From = c, r.quiet(c, addressFault) },
		"server": func(c int32) { t.Server = r.emailServer(c) },
	})
	switch {
	case !r.d.is(i, kindObject):
	case t.Server != nil:
		r.d.require(i, from > 0, "from")
	case from > 0:
		r.d.faultQuietly(from, "is the operator's to say: state it with a server")
	case !r.d.Rules.MailServer:
		r.d.require(i, false, "server")
	}
	return t
}

func (r *notificationReader) emailServer(i int32) *schema.EmailServer {
	s := new(schema.EmailServer)
	at := make(map[string]int32)
	r.record(i, "server", []string{"host"}, map[string]func(int32){
		"host":            func(c int32) { s.Host = r.quiet(c, hostFault) },
		"port":            func(c int32) { s.Port = r.d.integer(c, 1, 65535) },
		"tls":             func(c int32) { at["tls"], s.TLS = c, r.d.oneOf(c, schema.EmailTLS) },
		"username":        func(c int32) { at["username"], s.Username = c, r.quiet(c, userFault) },
		"password_secret": func(c int32) { at["password_secret"], s.PasswordSecret = c, r.secretRef(c) },
		"ca_secret":       func(c int32) { s.CASecret = r.secretRef(c) },
	})
	if r.d.is(i, kindObject) && (at["username"] > 0) != (at["password_secret"] > 0) {
		r.d.faultQuietly(i, "must have both or none of username and password_secret")
	}
	if s.TLS == schema.NoTLS && at["password_secret"] > 0 {
		r.d.faultQuietly(at["tls"], "sends a password for everybody to read: it goes with no username")
	}
	return s
}

// addressFault says what is wrong with an address of a mail, or "". Names and addresses are of
// ASCII: not every mail server takes others.
func addressFault(s string) string {
	const form = "must be an address such as me@example.com, or Me <me@example.com>"
	if s == "" || len(s) > maxAddress || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return form + ", of at most " + strconv.Itoa(maxAddress) + " ASCII characters"
	}
	a, err := mail.ParseAddress(s)
	if err != nil {
		return form
	}
	local, domain, _ := strings.Cut(a.Address, "@")
	if local == "" || hostFault(domain) != "" || strings.ContainsAny(a.Address, " \"<>()[],;:\\") {
		return form
	}
	return ""
}

// hostFault says what is wrong with the name or address of a host, or "".
func hostFault(s string) string {
	if s == "" || len(s) > 253 || strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".-_:", r)
	}) {
		return "must be the name of a host, or its address"
	}
	return ""
}
