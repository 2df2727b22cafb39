// Package auth shows callees who makes a call: it turns http.auth of a task, and the values of the
// secrets that it names, into headers, signatures, tokens and certificates; and it keeps those
// values out of whatever is written down.
//
//	values.go    the values of secrets; Fault: why a call cannot be made with them
//	header.go    bearer, basic, header
//	sigv4.go     signatures of AWS, and the credentials of a function
//	identity.go  certificates of the TLS handshake
//	url.go       URLs that are secrets
//	tokens.go    tokens of OAuth 2, kept until shortly before they expire
//	redactor.go  takes secrets out of texts
//
// # Invariants
//
//  1. No error of this package, and nothing that its types print, holds the value of a secret, or
//     what a library or a callee says of one. A Fault names secrets.
//  2. A token is asked for through the transport that the package is given, which has the guard of
//     calls (executor/target). A redirect of that call is not followed: it would carry the secret.
//  3. A token is given to the tenant whose secret it was had with, and to no other.
package auth
