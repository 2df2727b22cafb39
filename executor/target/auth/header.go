package auth

import (
	"encoding/base64"

	"carillon.dev/carillon/schema"
)

// authorization is the header of most kinds.
const authorization = "Authorization"

// Header returns the header that shows who calls, of the kinds bearer, basic and header; of others
// the name is "". An error is a Fault.
func Header(a *schema.HTTPAuth, v Values) (name, value string, err error) {
	switch {
	case a.Bearer != nil:
		name = authorization
		if value, err = v.headerValue(a.Bearer.Secret); err == nil {
			value = bearer(value)
		}
	case a.Basic != nil:
		name = authorization
		var password []byte
		if password, err = v.newest(a.Basic.Secret); err == nil {
			value = "Basic " + base64.StdEncoding.EncodeToString(append([]byte(a.Basic.Username+":"), password...))
		}
	case a.Header != nil:
		name = a.Header.Name
		value, err = v.headerValue(a.Header.Secret)
	}
	if err != nil {
		return "", "", err
	}
	return name, value, nil
}

func bearer(token string) string { return "Bearer " + token }
