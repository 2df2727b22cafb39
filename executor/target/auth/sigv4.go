package auth

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"carillon.dev/carillon/schema"
)

// signedHeaders are the headers of a signature, in the order of their names; the last is there with
// temporary credentials only.
var signedHeaders = []string{authorization, "X-Amz-Content-Sha256", "X-Amz-Date", "X-Amz-Security-Token"}

// Sign signs a request with that body: it sets headers, and may write the URL's query in another
// way. Signed are the host, the type of the content, and every header of AWS; others may be changed
// on the way. An error is a Fault.
func Sign(r *http.Request, body []byte, a *schema.SigV4Auth, v Values, now time.Time) error {
	key, err := v.headerValue(a.Secret)
	if err != nil {
		return err
	}
	credentials := aws.Credentials{AccessKeyID: a.AccessKeyID, SecretAccessKey: key}
	if a.SessionTokenSecret != "" {
		if credentials.SessionToken, err = v.headerValue(a.SessionTokenSecret); err != nil {
			return err
		}
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	for _, name := range signedHeaders { // of a hop before
		r.Header.Del(name)
	}
	r.Header.Set("X-Amz-Content-Sha256", hash) // S3 wants it, others do not mind
	part := &http.Request{Method: r.Method, URL: r.URL, Host: r.Host, Header: make(http.Header), ContentLength: r.ContentLength}
	for name, values := range r.Header {
		if canonical := http.CanonicalHeaderKey(name); canonical == "Content-Type" || strings.HasPrefix(canonical, "X-Amz-") {
			part.Header[canonical] = values
		}
	}
	err = v4.NewSigner().SignHTTP(r.Context(), credentials, part, hash, a.Service, a.Region, now, func(o *v4.SignerOptions) {
		o.DisableURIPathEscaping = a.Service == "s3" // the one service that takes the path as it is
	})
	if err != nil {
		return faultf("the call cannot be signed")
	}
	for _, name := range signedHeaders {
		if value := part.Header.Get(name); value != "" {
			r.Header.Set(name, value)
		}
	}
	return nil
}

// SignedHeaders returns the names of the headers that Sign may set.
func SignedHeaders() []string { return signedHeaders }

// Credentials returns the credentials of AWS that a secret holds as JSON. An error is a Fault.
func Credentials(name string, v Values) (aws.Credentials, error) {
	text, err := v.newest(name)
	if err != nil {
		return aws.Credentials{}, err
	}
	var c struct {
		AccessKeyID     string `json:"access_key_id"`
		SecretAccessKey string `json:"secret_access_key"`
		SessionToken    string `json:"session_token"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields() // a name that is almost right is no session token
	if err := d.Decode(&c); err != nil || d.More() || !isHeaderValue(c.AccessKeyID) || !isHeaderValue(c.SecretAccessKey) || c.SessionToken != "" && !isHeaderValue(c.SessionToken) {
		return aws.Credentials{}, faultf(`the secret %s does not hold credentials: {"access_key_id": "…", "secret_access_key": "…"}, and "session_token" if they are temporary`, name)
	}
	return aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.SessionToken}, nil
}
