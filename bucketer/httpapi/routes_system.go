package httpapi

import (
	"context"
	"embed"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// docs is the page that shows the OpenAPI document. It loads nothing from elsewhere.
//
//go:embed docs
var docs embed.FS

// docsPolicy lets the page load its own script and style, and the document.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'"

type clusterAnswer struct{ Body Cluster }

// systemRoutes serves health, metrics, the document and the cluster.
type systemRoutes struct{ *Server }

// route registers everything that is about the node itself. It comes last: the OpenAPI
// document is complete after it.
func (s systemRoutes) route() error {
	huma.Register(s.api, s.operation("get-cluster", http.MethodGet, "/v1/cluster", "Members, shards and how far each has come", 200, 503), s.cluster)

	s.engine.GET("/healthz", func(c *gin.Context) { c.String(http.StatusOK, "ok\n") })
	s.engine.GET("/readyz", s.readyz)
	gatherer := s.deps.Gatherer
	if gatherer == nil {
		gatherer = prometheus.NewRegistry()
	}
	s.engine.GET("/metrics", gin.WrapH(promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{})))
	s.engine.GET("/openapi.json", func(c *gin.Context) { c.Data(http.StatusOK, "application/openapi+json", s.openapi) })
	for path, file := range map[string][2]string{
		"/docs":          {"docs/index.html", "text/html; charset=utf-8"},
		"/docs/docs.js":  {"docs/docs.js", "text/javascript; charset=utf-8"},
		"/docs/docs.css": {"docs/docs.css", "text/css; charset=utf-8"},
	} {
		text, err := docs.ReadFile(file[0])
		if err != nil {
			return fmt.Errorf("read the docs page: %w", err)
		}
		s.engine.GET(path, func(c *gin.Context) {
			c.Header("Content-Security-Policy", docsPolicy)
			c.Header("X-Content-Type-Options", "nosniff")
			c.Data(http.StatusOK, file[1], text)
		})
	}
	d := documentWriter(s)
	d.describeSystem()
	middleware(s).describeAccess()
	if err := d.describePaths(); err != nil {
		return err
	}
	if err := d.describeWorkflows(); err != nil {
		return err
	}
	if err := d.describeAdmin(); err != nil {
		return err
	}
	return d.finish()
}

func (s systemRoutes) cluster(ctx context.Context, _ *struct{}) (*clusterAnswer, error) {
	if s.deps.Cluster == nil {
		return &clusterAnswer{Cluster{}.lists()}, nil
	}
	seen, err := s.deps.Cluster(ctx)
	if err != nil {
		return nil, s.fail(ctx, "look at the cluster", err)
	}
	return &clusterAnswer{seen.lists()}, nil
}

// readyz answers a line for each dependency, and 503 if one of them is not well.
func (s systemRoutes) readyz(c *gin.Context) {
	status := http.StatusOK
	var lines strings.Builder
	select {
	case <-s.stopping:
		status = http.StatusServiceUnavailable
		lines.WriteString("node: stopping\n")
	default:
	}
	if s.deps.Ready != nil {
		for _, d := range s.deps.Ready(c.Request.Context()) {
			if d.Err == nil {
				state := "ok"
				if d.Warning != "" {
					state = "WARNING, " + strings.Join(strings.Fields(d.Warning), " ")
				}
				fmt.Fprintf(&lines, "%s: %s\n", d.Name, state)
				continue
			}
			status = http.StatusServiceUnavailable
			fmt.Fprintf(&lines, "%s: %s\n", d.Name, strings.Join(strings.Fields(d.Err.Error()), " "))
		}
	}
	if lines.Len() == 0 {
		lines.WriteString("ok\n")
	}
	if status != http.StatusOK {
		c.Header("Retry-After", "2")
	}
	c.String(status, "%s", lines.String())
}
