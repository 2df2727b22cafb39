package schedule

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/netresearch/go-cron"
)

// expression is a cron expression that was read.
type expression struct {
	pattern
	elapsed bool // the minute or the hour is a wildcard
	rule    dayRule
}

// macros are the names that stand for an expression.
var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// The places of the fields.
const (
	fieldSecond = iota
	fieldMinute
	fieldHour
	fieldDay
	fieldMonth
	fieldWeekday
	fieldCount
)

// field is what may stand in a place of an expression.
type field struct {
	name     string
	min, max int // also what H is drawn from
	element  *regexp.Regexp
	blank    bool // "?" may stand for "*"
}

const (
	number   = `[0-9]{1,2}`
	months   = `(?:` + number + `|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)`
	weekdays = `(?:` + number + `|SUN|MON|TUE|WED|THU|FRI|SAT)`
)

// elements returns what an element of a list may be, where value is a number or a name, and what
// else it may be.
func elements(value string, also ...string) *regexp.Regexp {
	usual := `(?:\*|` + value + `(?:-` + value + `)?)(?:/` + number + `)?`
	return regexp.MustCompile(`^(?:` + strings.Join(append([]string{usual}, also...), `|`) + `)$`)
}

// fields are the places. H takes the days 1 to 28, which every month has, and the weekdays 0 to 6,
// each once.
var fields = [fieldCount]field{
	fieldSecond:  {name: "second", max: 59, element: elements(number)},
	fieldMinute:  {name: "minute", max: 59, element: elements(number)},
	fieldHour:    {name: "hour", max: 23, element: elements(number)},
	fieldDay:     {name: "day of month", min: 1, max: 28, element: elements(number, `L(?:-`+number+`)?`, `LW`, number+`W`), blank: true},
	fieldMonth:   {name: "month", min: 1, max: 12, element: elements(months)},
	fieldWeekday: {name: "day of week", max: 6, element: elements(weekdays, weekdays+`#[1-5]`, weekdays+`#?L`), blank: true},
}

var (
	hashed = regexp.MustCompile(`^H(?:\((` + number + `)-(` + number + `)\))?(?:/(` + number + `))?$`)
	// stepped is a range of weekdays with a step, which the library miscounts if it goes over the
	// end of the week.
	stepped = regexp.MustCompile(`^(` + weekdays + `)-(` + weekdays + `)/`)
	lastDay = regexp.MustCompile(`^` + weekdays + `L$`)
)

// parser turns fields into sets. It sees only what the checks here let through: it takes "*-5" for
// "*", "+5" for 5 and ",," for nothing, draws every H from one number, and wraps the week after
// eight days. Its own search is not used: it knows no zones.
var parser = cron.MustNewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow |
	cron.DomL | cron.DomW | cron.DowNth | cron.DowLast)

// parseCron reads an expression, and notes every fault.
func parseCron(text string, drawn func(field int) uint64, faults *Faults) expression {
	places, message := split(text)
	if message != "" {
		faults.add("cron", "%s", message)
		return expression{}
	}
	var wild [fieldCount]bool
	ok := true
	for i := range places {
		read, star, err := fields[i].read(places[i], drawn(i))
		if err != nil {
			faults.add("cron", "%s", "has a wrong "+fields[i].name+": "+err.Error())
			ok = false
			continue
		}
		places[i], wild[i] = read, star
	}
	if !ok {
		// The others are tried alone, so that every fault is named.
		for i := range places {
			if places[i] != "" && fields[i].plain(places[i]) {
				tryField(places, i, faults)
			}
		}
		return expression{}
	}
	parsed, err := parser.Parse(strings.Join(places[:], " "))
	if err != nil {
		before := len(*faults)
		for i := range places {
			tryField(places, i, faults)
		}
		if len(*faults) == before { // no field alone is to blame
			faults.add("cron", "%s", "is wrong: "+err.Error())
		}
		return expression{}
	}
	spec, isSpec := parsed.(*cron.SpecSchedule)
	if !isSpec {
		faults.add("cron", "is not an expression of five or six fields")
		return expression{}
	}
	return newExpression(spec, wild)
}

// tryField notes what the library finds wrong with a field.
func tryField(places [fieldCount]string, i int, faults *Faults) {
	alone := [fieldCount]string{"0", "0", "0", "1", "1", "0"}
	alone[i] = places[i]
	if _, err := parser.Parse(strings.Join(alone[:], " ")); err != nil {
		faults.add("cron", "has a wrong %s: %s", fields[i].name, err.Error())
	}
}

// plain reports whether every element of a field is one that the library may see.
func (f *field) plain(text string) bool {
	for element := range strings.SplitSeq(text, ",") {
		if !f.element.MatchString(element) {
			return false
		}
	}
	return true
}

// split checks the text as a whole and returns the fields in upper case, or what is wrong.
func split(text string) (places [fieldCount]string, message string) {
	if len(text) > MaxCronText {
		return places, fmt.Sprintf("must not be longer than %d bytes", MaxCronText)
	}
	for i := range len(text) {
		if c := text[i]; c != '\t' && (c < ' ' || c > '~') {
			return places, fmt.Sprintf("has a character that is not printable ASCII at byte %d", i)
		}
	}
	upper := strings.ToUpper(strings.Trim(text, " \t"))
	switch {
	case upper == "":
		return places, "is empty"
	case strings.HasPrefix(upper, "TZ=") || strings.HasPrefix(upper, "CRON_TZ="):
		return places, "must not name a time zone: state it in timezone"
	case strings.HasPrefix(upper, "@EVERY"):
		return places, "must not be an interval: state it in every, instead of cron"
	case upper == "@REBOOT":
		return places, "must name times: the start of a machine is none"
	case strings.HasPrefix(upper, "@"):
		expanded, ok := macros[strings.ToLower(upper)]
		if !ok {
			return places, "names no times: of the words with @ there are @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly"
		}
		upper = expanded
	}
	found := strings.Fields(upper)
	switch len(found) {
	case fieldCount - 1:
		found = append([]string{"0"}, found...)
	case fieldCount:
	case fieldCount + 1:
		return places, "has 7 fields, of which 6 are known (second, minute, hour, day of month, month, day of week): for years use start and end"
	default:
		return places, fmt.Sprintf("must have 5 fields (minute, hour, day of month, month, day of week), or 6 with the second first, not %d", len(found))
	}
	return [fieldCount]string(found), ""
}

// read checks one field and returns it with every H drawn, and whether it is a wildcard: "*",
// "*/n", or the same with H.
func (f *field) read(text string, seed uint64) (read string, wild bool, err error) {
	if f.blank && text == "?" {
		return "*", true, nil
	}
	list := strings.Split(text, ",")
	for i, element := range list {
		switch {
		case strings.HasPrefix(element, "H"):
			drawn, step, err := f.draw(element, seed)
			if err != nil {
				return "", false, err
			}
			list[i], wild = drawn, wild || step
			continue
		case element == "":
			return "", false, errors.New("an element of the list is missing")
		case !f.element.MatchString(element):
			return "", false, fmt.Errorf("%q cannot stand there", element)
		case strings.HasPrefix(element, "*"):
			wild = true
		}
		if f != &fields[fieldWeekday] {
			continue
		}
		if lastDay.MatchString(element) {
			list[i] = strings.TrimSuffix(element, "L") + "#L"
		}
		if m := stepped.FindStringSubmatch(element); len(m) == 3 && weekday(m[1]) > weekday(m[2]) {
			return "", false, fmt.Errorf("%q steps over the end of the week: list the days", element)
		}
	}
	return strings.Join(list, ","), wild, nil
}

// draw replaces H, H(a-b), H/n and H(a-b)/n by numbers. It is a wildcard if it stands for "*/n".
func (f *field) draw(element string, seed uint64) (numbers string, wild bool, err error) {
	m := hashed.FindStringSubmatch(element)
	if m == nil {
		return "", false, fmt.Errorf("%q cannot stand there: H is written H, H/15, H(0-29) or H(0-29)/10", element)
	}
	low, high := f.min, f.max
	if m[1] != "" {
		low, high = atoi(m[1]), atoi(m[2])
	}
	if low < f.min || high > f.max || low > high {
		return "", false, fmt.Errorf("%q must draw from a range within %d-%d", element, f.min, f.max)
	}
	size := uint64(high - low + 1) // #nosec G115 -- positive
	if m[3] == "" {
		return strconv.Itoa(low + int(seed%size)), false, nil // #nosec G115 -- below 60
	}
	step := atoi(m[3])
	if step < 1 || step > int(size) { // #nosec G115 -- below 61
		return "", false, fmt.Errorf("%q must have a step of 1 to %d", element, size)
	}
	var list []string
	for n := low + int(seed%uint64(step)); n <= high; n += step { // #nosec G115 -- below 60
		list = append(list, strconv.Itoa(n))
	}
	return strings.Join(list, ","), m[1] == "", nil
}

// mix returns 64 bits that are drawn from the seed for one field, so that the H of two fields are
// independent of each other and of the jitter (the finalizer of splitmix64).
func mix(seed, field uint64) uint64 {
	x := seed + (field+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// newExpression returns the sets of what the library has read.
func newExpression(spec *cron.SpecSchedule, wild [fieldCount]bool) expression {
	const star = 1 << 63 // how the library marks "*"
	e := expression{elapsed: wild[fieldMinute] || wild[fieldHour]}
	e.seconds, e.minutes, e.hours = spec.Second&^star, spec.Minute&^star, spec.Hour&^star
	e.months = spec.Month &^ star
	r := dayRule{
		month: spec.Dom &^ star, week: spec.Dow & allWeek, ofMonth: spec.DomConstraints, ofWeek: spec.DowConstraints,
		either: !wild[fieldDay] && !wild[fieldWeekday],
	}
	r.anyDay, r.anyWeek = r.month == allDays, r.week == allWeek
	e.rule = r
	e.setDays(func(length, first int) uint32 {
		byMonth := uint32(r.month) // #nosec G115 -- bits 1 to 31
		for _, c := range r.ofMonth {
			byMonth |= dayOfMonth(c, length, first)
		}
		var byWeek uint32
		for w := range daysPerWeek {
			if r.week>>w&1 != 0 {
				byWeek |= everyWeek << firstOf(w, first)
			}
		}
		for _, c := range r.ofWeek {
			byWeek |= dayOfWeek(c, length, first)
		}
		if r.either {
			return byMonth | byWeek
		}
		return byMonth & byWeek
	})
	e.seal()
	return e
}

// everyWeek is a day in each of five weeks.
const everyWeek = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28

// firstOf returns the first day of a weekday in a month whose first day is the weekday first.
func firstOf(weekday, first int) int { return (weekday-first+daysPerWeek)%daysPerWeek + 1 }

// dayOfWeek returns the day of "FRI#3" or "FRIL" in a month, as a set.
func dayOfWeek(c cron.DowConstraint, length, first int) uint32 {
	day := firstOf(c.Weekday, first)
	if c.N < 0 {
		return 1 << (day + (length-day)/daysPerWeek*daysPerWeek)
	}
	return 1 << (day + (c.N-1)*daysPerWeek) // a day after the 31st falls out of the word
}

// dayOfMonth returns the day of "L", "L-3", "LW" or "15W" in a month, as a set.
func dayOfMonth(c cron.DomConstraint, length, first int) uint32 {
	switch c.Type {
	case cron.DomLast:
		return 1 << length
	case cron.DomLastOffset:
		if c.N < length {
			return 1 << (length - c.N)
		}
	case cron.DomLastWeekday:
		return 1 << workday(length, length, first)
	case cron.DomNearestWeekday:
		if c.N <= length {
			return 1 << workday(c.N, length, first)
		}
	}
	return 0
}

// workday returns the day from Monday to Friday that is nearest to day, in the same month.
func workday(day, length, first int) int {
	switch (first + day - 1) % daysPerWeek {
	case 0: // Sunday
		if day < length {
			return day + 1
		}
		return day - 2
	case 6: // Saturday
		if day > 1 {
			return day - 1
		}
		return day + 2
	}
	return day
}

// weekday returns the number of a weekday: a number, or a name.
func weekday(text string) int {
	if i := slices.Index(weekdayNames, text); i >= 0 {
		return i
	}
	return atoi(text)
}

var weekdayNames = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}

// atoi reads a number of one or two digits.
func atoi(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
