// Package crontab reads crontabs: those of users (crontab -e), and those of the system
// (/etc/crontab, /etc/cron.d), whose lines name a user as well. It understands what Debian's cron
// and cronie do, and leaves the judgement of expressions to the API.
//
// A line may depend on the lines above it: settings such as PATH and CRON_TZ apply to all lines
// below them.
package crontab
