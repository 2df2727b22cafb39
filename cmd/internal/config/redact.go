package config

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// secretKeys are the keys whose values are never shown. Of user names it is shown that there is one.
var secretKeys = []string{
	"api.cursor_key", "api.oidc.client_secret", "cassandra.password", "cassandra.username", "email.password", "email.username", "nats.password", "nats.token", "nats.user", "ring.key", "secrets.keys",
}

// urlKeys are the keys whose values are URLs, or name one after an equals sign. A URL can hold a
// password.
var urlKeys = []string{"api.advertise", "api.public_url", "nats.urls", "regions.api"}

// Hidden stands for a value that is not shown.
const Hidden = "(hidden)"

// Redacted returns what is set, by key, as it can be shown to others: a secret that is set is Hidden,
// and URLs have neither user nor password nor query. Files that the configuration names are not read.
func (c Config) Redacted() map[string]any {
	shown := make(map[string]any)
	walk("", reflect.ValueOf(c), func(key string, v reflect.Value) {
		switch {
		case v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0:
			shown[key] = v.Interface()
		case slices.Contains(secretKeys, key):
			shown[key] = Hidden
		case slices.Contains(urlKeys, key):
			shown[key] = redactURLs(v.Interface())
		default:
			shown[key] = v.Interface()
		}
	})
	return shown
}

// SecretValues returns the texts of c that must not be shown: the values of secret keys, keys of the
// keyring without their names, and what URLs hold besides scheme, host and path.
func (c Config) SecretValues() []string {
	var found []string
	walk("", reflect.ValueOf(c), func(key string, v reflect.Value) {
		for _, text := range textsOf(v.Interface()) {
			switch {
			case slices.Contains(secretKeys, key):
				found = append(found, text)
				if key != "secrets.keys" {
					continue
				}
				if _, value, named := strings.Cut(text, ":"); named {
					found = append(found, strings.TrimSpace(value))
				}
			case slices.Contains(urlKeys, key):
				found = append(found, inURL(text)...)
			}
		}
	})
	return slices.DeleteFunc(found, func(s string) bool { return s == "" })
}

// walk calls visit with the key and the value of each setting below v.
func walk(prefix string, v reflect.Value, visit func(key string, v reflect.Value)) {
	for i := range v.NumField() {
		key := prefix + v.Type().Field(i).Tag.Get("koanf")
		if v.Field(i).Kind() == reflect.Struct {
			walk(key+".", v.Field(i), visit)
			continue
		}
		visit(key, v.Field(i))
	}
}

// textsOf returns a text, or those of a list.
func textsOf(value any) []string {
	switch value := value.(type) {
	case string:
		return []string{value}
	case []string:
		return value
	}
	return nil
}

// redactURLs is redactURL of a text or of a list of texts.
func redactURLs(value any) any {
	if list, ok := value.([]string); ok {
		shown := make([]string, len(list))
		for i, text := range list {
			shown[i] = redactURL(text)
		}
		return shown
	}
	text, _ := value.(string) // the keys have texts
	return redactURL(text)
}

// redactURL returns a URL, with a name and an equals sign before it where there are some, without
// what it may hide. What is no URL is hidden whole.
func redactURL(text string) string {
	name, u := parseNamed(text)
	if u == nil {
		return Hidden
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return name + shown.String()
}

// inURL returns what a URL holds that must not be shown.
func inURL(text string) []string {
	_, u := parseNamed(text)
	if u == nil {
		return []string{text}
	}
	found := []string{u.RawQuery, u.RawFragment, u.Fragment}
	for _, values := range u.Query() {
		found = append(found, values...)
	}
	if u.User == nil {
		return found
	}
	raw := u.User.String()
	found = append(found, raw, u.User.Username())
	if password, set := u.User.Password(); set {
		found = append(found, password)
		_, encoded, _ := strings.Cut(raw, ":")
		found = append(found, encoded)
	}
	return found
}

// parseNamed reads "URL" or "name=URL"; nil: it is neither.
func parseNamed(text string) (name string, u *url.URL) {
	text = strings.TrimSpace(text)
	if before, after, named := strings.Cut(text, "="); named && !strings.Contains(before, "://") {
		name, text = before+"=", strings.TrimSpace(after)
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" && text != "embedded" {
		return "", nil
	}
	return name, u
}
