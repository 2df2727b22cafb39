package webhook

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The example of the specification's reference libraries: everybody's signature of it is this one.
const (
	vectorSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	vectorID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorTimestamp = 1614265330
	vectorBody      = `{"test": 2432232314}`
	vectorSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

func TestSignGivesTheSignatureOfTheSpecification(t *testing.T) {
	secret, err := ParseSecret(vectorSecret)
	if err != nil {
		t.Fatalf("ParseSecret: %v", err)
	}
	at := time.Unix(vectorTimestamp, 999_999_999)
	if got := Sign(vectorID, at, []byte(vectorBody), secret); got != vectorSignature {
		t.Errorf("Sign: got %s, want %s", got, vectorSignature)
	}
	other := NewSecret()
	if got, want := Sign(vectorID, at, []byte(vectorBody), other, secret), Sign(vectorID, at, []byte(vectorBody), other)+" "+vectorSignature; got != want {
		t.Errorf("Sign with two secrets: got %s, want %s", got, want)
	}
}

// headers returns what a signed call has.
func headers(id, timestamp, signature string) http.Header {
	h := make(http.Header)
	for name, value := range map[string]string{"webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature} {
		if value != "" {
			h.Set(name, value)
		}
	}
	return h
}

func TestVerify(t *testing.T) {
	const other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	stamp := strconv.Itoa(vectorTimestamp)
	wrong := "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	for name, c := range map[string]struct {
		header http.Header
		body   string
		now    int64
		want   error
	}{
		"right":                          {headers(vectorID, stamp, vectorSignature), vectorBody, vectorTimestamp, nil},
		"at the end of the tolerance":    {headers(vectorID, stamp, vectorSignature), vectorBody, vectorTimestamp + 300, nil},
		"ahead, within the tolerance":    {headers(vectorID, stamp, vectorSignature), vectorBody, vectorTimestamp - 300, nil},
		"too old":                        {headers(vectorID, stamp, vectorSignature), vectorBody, vectorTimestamp + 301, ErrTimestamp},
		"too far ahead":                  {headers(vectorID, stamp, vectorSignature), vectorBody, vectorTimestamp - 301, ErrTimestamp},
		"the second of several":          {headers(vectorID, stamp, wrong+" "+vectorSignature), vectorBody, vectorTimestamp, nil},
		"beside other versions":          {headers(vectorID, stamp, "v1a,xyz v2,"+vectorSignature[3:]+" "+vectorSignature), vectorBody, vectorTimestamp, nil},
		"of another version alone":       {headers(vectorID, stamp, "v2,"+vectorSignature[3:]), vectorBody, vectorTimestamp, ErrSignature},
		"another body":                   {headers(vectorID, stamp, vectorSignature), vectorBody + " ", vectorTimestamp, ErrSignature},
		"no body":                        {headers(vectorID, stamp, vectorSignature), "", vectorTimestamp, ErrSignature},
		"another id":                     {headers(vectorID+"x", stamp, vectorSignature), vectorBody, vectorTimestamp, ErrSignature},
		"another timestamp":              {headers(vectorID, strconv.Itoa(vectorTimestamp+1), vectorSignature), vectorBody, vectorTimestamp, ErrSignature},
		"another signature":              {headers(vectorID, stamp, wrong), vectorBody, vectorTimestamp, ErrSignature},
		"a part of it":                   {headers(vectorID, stamp, "v1,g0hM"), vectorBody, vectorTimestamp, ErrSignature},
		"an empty one":                   {headers(vectorID, stamp, "v1,"), vectorBody, vectorTimestamp, ErrSignature},
		"not base64":                     {headers(vectorID, stamp, "v1,????"), vectorBody, vectorTimestamp, ErrSignature},
		"beyond the most":                {headers(vectorID, stamp, strings.Repeat(wrong+" ", 16)+vectorSignature), vectorBody, vectorTimestamp, ErrSignature},
		"no id":                          {headers("", stamp, vectorSignature), vectorBody, vectorTimestamp, ErrUnsigned},
		"no timestamp":                   {headers(vectorID, "", vectorSignature), vectorBody, vectorTimestamp, ErrUnsigned},
		"no signature":                   {headers(vectorID, stamp, ""), vectorBody, vectorTimestamp, ErrUnsigned},
		"a timestamp with a sign":        {headers(vectorID, "+"+stamp, vectorSignature), vectorBody, vectorTimestamp, ErrUnsigned},
		"a timestamp with zeros":         {headers(vectorID, "0"+stamp, vectorSignature), vectorBody, vectorTimestamp, ErrUnsigned},
		"a timestamp that is no number":  {headers(vectorID, "now", vectorSignature), vectorBody, vectorTimestamp, ErrUnsigned},
		"a timestamp that is too large":  {headers(vectorID, "9223372036854775808", vectorSignature), vectorBody, vectorTimestamp, ErrUnsigned},
		"a timestamp far in the past":    {headers(vectorID, "-9223372036854775808", vectorSignature), vectorBody, vectorTimestamp, ErrTimestamp},
		"a timestamp far in the future":  {headers(vectorID, "9223372036854775807", vectorSignature), vectorBody, vectorTimestamp, ErrTimestamp},
		"an id that takes of the others": {headers(vectorID+"."+stamp, stamp, vectorSignature), vectorBody, vectorTimestamp, ErrSignature},
	} {
		for _, secrets := range [][]string{{vectorSecret}, {other, vectorSecret}, {vectorSecret, other}} {
			v, err := NewVerifier(secrets...)
			if err != nil {
				t.Fatalf("NewVerifier: %v", err)
			}
			v.Now = func() time.Time { return time.Unix(c.now, 0) }
			if err := v.Verify(c.header, []byte(c.body)); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%s: Verify with %d secrets: got %v, want %v", name, len(secrets), err, c.want)
			}
		}
		v, err := NewVerifier(other)
		if err != nil {
			t.Fatalf("NewVerifier: %v", err)
		}
		v.Now = func() time.Time { return time.Unix(c.now, 0) }
		if err := v.Verify(c.header, []byte(c.body)); err == nil {
			t.Errorf("%s: Verify with another secret: got nil, want an error", name)
		}
	}
}

func TestParseSecret(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		ok   bool
	}{
		"of the specification": {vectorSecret, true},
		"a new one":            {FormatSecret(NewSecret()), true},
		"64 bytes":             {FormatSecret(make([]byte, 64)), true},
		"65 bytes":             {FormatSecret(make([]byte, 65)), false},
		"23 bytes":             {FormatSecret(make([]byte, 23)), false},
		"none":                 {"", false},
		"the prefix alone":     {"whsec_", false},
		"another prefix":       {"whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", false},
		"no prefix":            {"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", false},
		"not base64":           {"whsec_s3cret-s3cret-s3cret-s3cret-s3cret", false},
	} {
		secret, err := ParseSecret(c.text)
		if (err == nil) != c.ok || c.ok && FormatSecret(secret) != c.text {
			t.Errorf("%s: ParseSecret: got %d bytes and %v, want success: %t", name, len(secret), err, c.ok)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: ParseSecret: the error repeats the secret: %v", name, err)
		}
	}
	if _, err := NewVerifier(); err == nil {
		t.Error("NewVerifier of no secret: got nil, want an error")
	}
	if _, err := NewVerifier(vectorSecret, "whsec_s3cret"); err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "secret 2") {
		t.Errorf("NewVerifier of a wrong secret: got %v, want it to name the second and not repeat it", err)
	}
}
