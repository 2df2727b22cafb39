package document

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

// letterDays are the two methods of schema.DeadLetterIndex that are about rows without letters.
// They are apart since Roles has many methods.
type letterDays struct{ rows Rows }

// DeadLetterDayName returns the name of what is noted of a tenant's day: tenant, a zero byte, the
// day in digits of one length. So the order of names is that of tenants and days.
func DeadLetterDayName(at schema.TenantDay) string {
	return fmt.Sprintf("%s\x00%08d", at.Tenant, at.Day)
}

// ParseDeadLetterDayName is the inverse of DeadLetterDayName; of "" it returns the zero value.
func ParseDeadLetterDayName(name string) schema.TenantDay {
	tenant, day, _ := strings.Cut(name, "\x00")
	n, _ := strconv.Atoi(day) // DeadLetterDayName wrote it
	return schema.TenantDay{Tenant: tenant, Day: n}
}

// ParseDay returns the day that a scope of Kind DeadLetterDay names.
func ParseDay(scope string) int {
	n, _ := strconv.Atoi(scope) // NoteDeadLetters wrote it
	return n
}

// NoteDeadLetters implements schema.DeadLetterIndex. All writes of a row have one timestamp and one
// expiry.
func (r letterDays) NoteDeadLetters(ctx context.Context, ended int, at schema.TenantDay, expires time.Time) error {
	err := r.rows.PutDocuments(ctx, Document{
		Kind: DeadLetterDay, Scope: strconv.Itoa(ended), Name: DeadLetterDayName(at), Written: schema.PeriodStart(ended), Expires: expires,
	})
	if err != nil {
		return fmt.Errorf("note dead letters of %s: %w", at.Tenant, err)
	}
	return nil
}

// NotedDeadLetters implements schema.DeadLetterIndex.
func (r letterDays) NotedDeadLetters(ctx context.Context, ended int, after schema.TenantDay, limit int) ([]schema.TenantDay, error) {
	name := ""
	if after != (schema.TenantDay{}) {
		name = DeadLetterDayName(after)
	}
	days, err := listOf(ctx, r.rows, DeadLetterDay, strconv.Itoa(ended), name, limit, func(d *Document) schema.TenantDay {
		return ParseDeadLetterDayName(d.Name)
	})
	if err != nil {
		return nil, fmt.Errorf("read where dead letters lie: %w", err)
	}
	return days, nil
}
