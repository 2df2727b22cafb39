package drill

import (
	"context"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/schema"
)

// Check is something that must be so before a drill.
type Check struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Message string `json:"message,omitempty"`
}

// String returns a check in one line.
func (c Check) String() string {
	word := "ok    "
	if !c.OK {
		word = "FAILED"
	}
	return fmt.Sprintf("%s %s: %s", word, c.Name, c.Message)
}

func failed(checks []Check) (n int) {
	for _, c := range checks {
		if !c.OK {
			n++
		}
	}
	return n
}

// staleAfter is how old the last sign of a move that has not ended is, when nobody works on it any
// more.
const staleAfter = 10 * time.Second

// check finds out whether all is ready. It changes nothing.
func (d *Drill) check(ctx context.Context, from string) (all []Check) {
	add := func(name string, err error, format string, args ...any) {
		c := Check{Name: name, OK: err == nil, Message: fmt.Sprintf(format, args...)}
		if err != nil {
			c.Message = err.Error()
		}
		all = append(all, c)
	}
	newest, err := d.Changer.Store.Epochs(ctx, d.Changer.Homes)
	add("epochs", err, "%d homes", len(newest))
	if d.Everywhere != nil {
		add("data centres", d.Everywhere(ctx), "each answers, that of a witness too")
	}
	for _, region := range []string{from, d.To} {
		api, ok := d.APIs[region]
		if !ok {
			add("API of "+region, fmt.Errorf("regions.api names none"), "")
			continue
		}
		stand, err := api.Stand(ctx)
		add("API of "+region, err, "answers")
		if err == nil {
			all = append(all, judge(region, []string{from, d.To}, &stand, newest)...)
		}
	}
	return all
}

// judge returns what is as it should be, and what not, in what a node of a region tells.
func judge(region string, both []string, stand *httpapi.RegionsStand, newest []schema.Epoch) (all []Check) {
	add := func(ok bool, name, format string, args ...any) {
		all = append(all, Check{Name: name, OK: ok, Message: fmt.Sprintf(format, args...)})
	}
	if stand.Region != region {
		add(false, "API of "+region, "a node of region %q answers there: regions.api names another one", stand.Region)
		return all
	}
	for i := range stand.Homes {
		h := &stand.Homes[i]
		j := slices.IndexFunc(newest, func(e schema.Epoch) bool { return e.Home == h.Name })
		switch {
		case j < 0:
			add(false, "lease of "+region, "it has a home %s, which is not configured here", h.Name)
		case h.LeaseAge == nil || *h.LeaseAge > schema.HomeLeaseLife.Seconds():
			add(false, "lease of "+region, "it has not read for 10 s who serves home %s", h.Name)
		case h.Epoch != newest[j].Number || h.Region != newest[j].Region:
			add(false, "lease of "+region, "it knows epoch %d of home %s, by region %s; epoch %d by region %s stands", h.Epoch, h.Name, h.Region, newest[j].Number, newest[j].Region)
		case h.Region == region && !h.Served:
			add(false, "lease of "+region, "it does not serve home %s yet: %s", h.Name, h.Message)
		case h.Region == region:
			add(true, "lease of "+region, "serves home %s, epoch %d, read %.1f s ago", h.Name, h.Epoch, *h.LeaseAge)
		}
		if c := h.Change; c != nil && !(schema.HomeProgress{Phase: c.Phase}).Ended() && stand.AsOf.Sub(c.UpdatedAt.Time) < staleAfter {
			add(false, "home "+h.Name, "%s has it served by region %s: %s, %s", c.By, c.To, c.Phase, c.Reason)
		}
	}
	for i := range stand.Regions {
		other := &stand.Regions[i]
		if !slices.Contains(both, other.Name) {
			continue
		}
		switch name := fmt.Sprintf("%s behind %s", region, other.Name); {
		case other.Lag == nil:
			add(false, name, "there is no sign of life of it")
		case *other.Lag > schema.MaxTakeOverLag.Seconds():
			add(false, name, "%.1f s: more than %v", *other.Lag, schema.MaxTakeOverLag)
		default:
			add(true, name, "%.1f s at most", *other.Lag)
		}
		if other.Local {
			switch n := other.Executors; {
			case n == nil:
				add(true, "executors of "+region, "it does not tell")
			default:
				add(*n > 0, "executors of "+region, "%d", *n)
			}
		}
	}
	return all
}
