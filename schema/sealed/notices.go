package sealed

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"carillon.dev/carillon/schema"
)

// textHead stands before a text that is sealed in the place of another text.
const textHead = "\x00sealed:"

// text returns a text as it is stored, if it can be sealed; else nothing of it.
func (b *box) text(s, place string) string {
	if s == "" || strings.HasPrefix(s, textHead) {
		return s
	}
	sealed, err := b.keys.SealRow([]byte(s), place)
	if err != nil {
		return notKept
	}
	return textHead + base64.StdEncoding.EncodeToString(sealed)
}

// openText is the inverse of text. What cannot be opened says so.
func (b *box) openText(s, place string) string {
	encoded, ok := strings.CutPrefix(s, textHead)
	if !ok {
		return s
	}
	sealed, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return s // a text that only begins so
	}
	clear, err := b.openRow(sealed, place)
	if err != nil {
		return err.Error()
	}
	return string(clear)
}

func placeOfIncident(n *schema.Incident) string {
	return "incident\x00" + n.Tenant + "\x00" + n.ID.String()
}

// PutIncidents implements schema.IncidentStore.
func (s noticeRows) PutIncidents(ctx context.Context, incidents []schema.Incident) error {
	incidents = slices.Clone(incidents)
	for i := range incidents {
		n := &incidents[i]
		if n.Error+n.Pattern != "" && s.box.seals(ctx, n.Tenant) {
			place := placeOfIncident(n)
			n.Error, n.Pattern = s.box.text(n.Error, place), s.box.text(n.Pattern, place)
		}
	}
	return s.inner.PutIncidents(ctx, incidents)
}

// Incidents implements schema.IncidentStore.
func (s noticeRows) Incidents(ctx context.Context, tenant string, minute schema.Bucket, after schema.EntryID, limit int) ([]schema.Incident, error) {
	all, err := s.inner.Incidents(ctx, tenant, minute, after, limit)
	for i := range all {
		n := &all[i]
		place := placeOfIncident(n)
		n.Error, n.Pattern = s.box.openText(n.Error, place), s.box.openText(n.Pattern, place)
	}
	return all, err
}

func placeOfGroup(g *schema.NotificationGroup) string {
	return "group\x00" + g.Tenant + "\x00" + g.Name
}

// SwapNotificationGroup implements schema.IncidentStore.
func (s noticeRows) SwapNotificationGroup(ctx context.Context, was int64, is schema.NotificationGroup) error {
	if len(is.Examples)+len(is.Values) > 0 && s.box.seals(ctx, is.Tenant) {
		place := placeOfGroup(&is)
		is.Examples, is.Values = slices.Clone(is.Examples), slices.Clone(is.Values)
		for i := range is.Examples {
			is.Examples[i].Error = s.box.text(is.Examples[i].Error, place)
		}
		for i := range is.Values {
			is.Values[i].Value = s.box.text(is.Values[i].Value, place)
		}
	}
	return s.inner.SwapNotificationGroup(ctx, was, is)
}

// NotificationGroups implements schema.IncidentStore.
func (s noticeRows) NotificationGroups(ctx context.Context, tenant, after string, limit int) ([]schema.NotificationGroup, error) {
	all, err := s.inner.NotificationGroups(ctx, tenant, after, limit)
	for i := range all {
		g := &all[i]
		place := placeOfGroup(g)
		for k := range g.Examples {
			g.Examples[k].Error = s.box.openText(g.Examples[k].Error, place)
		}
		for k := range g.Values {
			g.Values[k].Value = s.box.openText(g.Values[k].Value, place)
		}
	}
	return all, err
}
