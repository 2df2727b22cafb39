package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

type (
	clusterAnswer struct{ Body Cluster }
	regionsAnswer struct{ Body Regions }
)

// Dependency is how something stands that the node needs: a nil Err is well.
type Dependency struct {
	Name    string
	Err     error  // why the node is not ready
	Warning string // what its operator should know although it is ready
}

// systemRoutes serves health, metrics, the document, the pages for browsers and the cluster.
type systemRoutes struct{ *Server }

// route registers everything that is about the node itself. It comes last: the OpenAPI
// document is complete after it.
func (s systemRoutes) route() error {
	huma.Register(s.api, s.operation("get-cluster", http.MethodGet, "/v1/cluster", "Members, shards and how far each has come", 200, 503), s.cluster)
	huma.Register(s.api, s.operation("get-regions", http.MethodGet, "/v1/regions", "Which region serves each home of shards", 200, 503), s.regions)

	s.engine.GET("/healthz", func(c *gin.Context) { c.String(http.StatusOK, "ok\n") })
	s.engine.GET("/readyz", s.readyz)
	gatherer := s.deps.Gatherer
	if gatherer == nil {
		gatherer = prometheus.NewRegistry()
	}
	s.engine.GET("/metrics", gin.WrapH(promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{EnableOpenMetrics: s.config.OpenMetrics})))
	s.engine.GET("/openapi.json", func(c *gin.Context) { c.Data(http.StatusOK, "application/openapi+json", s.openapi) })
	if err := s.pages(); err != nil {
		return err
	}
	d := documentWriter(s)
	d.describeSystem()
	d.describeTags()
	middleware(s).describeAccess()
	middleware(s).findLists()
	if err := d.describeParameters(); err != nil {
		return err
	}
	if err := d.describeWorkflows(); err != nil {
		return err
	}
	if err := d.describeNotifications(); err != nil {
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

// regions answers from memory.
func (s systemRoutes) regions(context.Context, *struct{}) (*regionsAnswer, error) {
	var seen Regions
	if s.deps.Regions != nil {
		seen = s.deps.Regions()
	}
	seen.Homes = append([]Home{}, seen.Homes...)
	return &regionsAnswer{seen}, nil
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
