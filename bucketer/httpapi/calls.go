package httpapi

import (
	"context"
	"net/http"
	"strings"

	"carillon.dev/carillon/schema"
)

// callOf returns what a run of that spec calls, by what its task says now; "": it calls nothing, or
// that is not known.
func callOf(ctx context.Context, tasks Tasks, spec *schema.Spec) string {
	if spec.Work != nil {
		if w := spec.Work; w.HTTP != nil && w.HTTP.URL != "" && postsByURL(spec.Labels) {
			return methodOf(w.HTTP) + " " + hostAlone(w.HTTP.URL)
		}
		return callWords(spec.Work)
	}
	if spec.Task == "" {
		return ""
	}
	task, err := tasks.Task(ctx, spec.Tenant, spec.Task)
	if err != nil {
		return ""
	}
	return callWords(&task.Work)
}

func methodOf(h *schema.HTTPTarget) string {
	if h.Method == "" {
		return http.MethodPost
	}
	return h.Method
}

// callWords returns what work calls, without what a URL may hide: user, query and fragment.
func callWords(w *schema.Work) string {
	switch {
	case w.HTTP != nil:
		method := methodOf(w.HTTP)
		if w.HTTP.URLSecret != "" {
			return method + " to the URL in the secret " + w.HTTP.URLSecret
		}
		url, _, _ := strings.Cut(w.HTTP.URL, "#")
		url, _, _ = strings.Cut(url, "?")
		scheme, rest, ok := strings.Cut(url, "://")
		if !ok {
			return method
		}
		host, path, _ := strings.Cut(rest, "/")
		if path != "" {
			path = "/" + path
		}
		return method + " " + scheme + "://" + host[strings.LastIndexByte(host, '@')+1:] + path
	case w.NATS != nil:
		return "NATS " + w.NATS.Subject
	case w.Script != nil:
		return "script " + w.Script.Command
	case w.Lambda != nil:
		return "Lambda " + w.Lambda.Function
	case w.Email != nil:
		return "e-mail to " + strings.Join(w.Email.To, ", ")
	}
	if kind, to := w.Message(); kind != "" {
		return kind + " " + to
	}
	return ""
}
