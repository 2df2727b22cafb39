package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// answer writes the lines of a decided chunk, and sends them.
func (m *importer) answer(c chunk, decisions []decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var made, known int64
	var text []byte
	var logged bool
	for i, d := range decisions {
		m.summary.Lines++
		if d.err != nil {
			p := lineProblem(d.err)
			if p.Status >= http.StatusInternalServerError && !logged {
				logged = true
				m.s.log.Warn("import lines failed", "tenant", m.tenant, "line", c.lines[i], "err", d.err)
			}
			m.failed(c.lines[i], p)
			continue
		}
		status := http.StatusCreated
		if d.existing {
			status = http.StatusOK
			known++
		} else {
			made++
		}
		if !m.errorsOnly {
			text = append(strconv.AppendInt(append(text[:0], `{"line":`...), c.lines[i], 10), `,"id":"`...)
			text = append(append(text, d.id.String()...), `","status":`...)
			text = append(strconv.AppendInt(text, int64(status), 10), "}\n"...)
			_, _ = m.out.Write(text) // the writer remembers its error
		}
	}
	m.summary.Created += made
	m.summary.Existing += known
	m.s.metrics.line(http.StatusCreated, made)
	m.s.metrics.line(http.StatusOK, known)
	m.flush()
}

// answerAlone answers a line that is not submitted: it has a problem, or (nil) was only to be
// checked.
func (m *importer) answerAlone(line int64, p *Problem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.summary.Lines++
	if p != nil {
		m.failed(line, p)
		return
	}
	m.s.metrics.line(http.StatusOK, 1)
	if !m.errorsOnly {
		m.reply(ImportResult{Line: line, Status: http.StatusOK})
	}
}

// failed answers a line that has a problem. The caller holds mu.
func (m *importer) failed(line int64, p *Problem) {
	m.summary.Failed++
	m.s.metrics.line(p.Status, 1)
	m.reply(ImportResult{Line: line, Status: p.Status, Error: p})
}

// reply writes one line of the answer. The caller holds mu.
func (m *importer) reply(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		m.s.log.Error("encode a line of an import's answer", "err", err)
		m.breakOff()
		return
	}
	_, _ = m.out.Write(append(text, '\n')) // the writer remembers its error
}

// unsent reports whether answers wait to be sent.
func (m *importer) unsent() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out.Buffered() > 0 || m.wrote
}

// flush sends what is written. The caller holds mu.
func (m *importer) flush() {
	if m.out.Flush() != nil || !m.wrote {
		return
	}
	m.wrote = false
	if err := m.conn.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		m.breakOff()
	}
}

func (m *importer) breakOff() { m.breakIt.Do(func() { close(m.broken) }) }

// answerWriter writes answers to the caller, within the write time-out each.
type answerWriter struct{ m *importer }

func (w answerWriter) Write(p []byte) (int, error) {
	m := w.m
	if !m.gin.Writer.Written() {
		m.gin.Header("Content-Type", ndjson)
		m.gin.Header("X-Content-Type-Options", "nosniff")
		m.gin.Status(http.StatusOK)
	}
	// recorders of tests have none
	_ = m.conn.SetWriteDeadline(time.Now().Add(m.s.config.WriteTimeout))
	m.wrote = true
	n, err := m.gin.Writer.Write(p)
	if err != nil {
		m.breakOff()
		return n, fmt.Errorf("answer import: %w", err)
	}
	return n, nil
}
