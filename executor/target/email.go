package target

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

const (
	// maxSMTP bounds what is read of a mail server in one attempt, bytes: its handshake of TLS and
	// its answers.
	maxSMTP = 256 << 10
	// maxReply bounds what is kept of a mail server's answer, bytes.
	maxReply = 1 << 10
	// quitPatience is how long a mail server that has taken a mail is waited for.
	quitPatience = time.Second
)

// errTooMuch: a mail server says more than maxSMTP.
var errTooMuch = errors.New("the mail server says too much")

// MailServer is the operator's mail server, by which mails are sent that name none. It is called
// whatever its address is.
type MailServer struct {
	Address            string // host:port; "": there is none
	TLS                string // one of schema.EmailTLS; default schema.StartTLS
	Roots              *x509.CertPool
	Username, Password string // "": it asks for none
	From               string // what mails say who sends them
	// Recipients are whom mails may go to: addresses, or domains with an @ before them. Empty: all.
	Recipients []string
}

// Email is the Target of mails: the messages of notifications.
//
// An attempt is one conversation with a mail server (SMTP, RFC 5321), which ends with the attempt,
// however slow the server is. A server that a tenant names is dialled through the guard of HTTP
// tasks. A mail that was accepted is not sent again; one whose acceptance is not known is, under
// the same Message-ID.
type Email struct {
	http   *HTTP
	server MailServer
}

// NewEmail returns an Email that dials the servers of tenants as h does.
func NewEmail(h *HTTP, server MailServer) *Email { return &Email{http: h, server: server} }

// mailRoute is how one mail is sent.
type mailRoute struct {
	host, port string
	mode       string // one of schema.EmailTLS
	tls        *tls.Config
	user, pass string
	from       string
	dial       func(ctx context.Context, network, address string) (net.Conn, error)
}

// Run implements Target. A mail succeeds once the server has accepted it for all recipients. What
// it refuses with 5xx is final; 4xx, and all that goes wrong on the way, is tried again.
func (m *Email) Run(ctx context.Context, c Call) Result {
	t := c.Work.Email
	if t == nil {
		return Result{Outcome: schema.Failed, Error: "not an e-mail", Final: true}
	}
	hide := auth.NewRedactor(c.Values)
	with, err := m.with(t, c.Values)
	var fault *auth.Fault
	switch {
	case errors.As(err, &fault):
		return Result{Outcome: schema.Failed, Error: "not called: " + fault.Error(), Uncalled: true}
	case err != nil:
		return Result{Outcome: schema.Failed, Error: "not called: " + err.Error(), Uncalled: true, Final: true}
	}
	mail, err := compose(&c, with.from)
	if err != nil {
		return Result{Outcome: schema.Failed, Error: "not called: " + err.Error(), Uncalled: true, Final: true}
	}
	res := m.send(ctx, &c, with, mail)
	res.Error, res.Output = hide.Text(res.Error), hide.Bytes(res.Output, res.OutputCut)
	return res
}

// with returns how a mail is sent: by the server that it names, or the operator's. An error that is
// no Fault stays.
func (m *Email) with(t *schema.EmailTarget, v auth.Values) (with mailRoute, err error) {
	s := t.Server
	if s == nil {
		return m.withOperators(t)
	}
	in := s.InForce()
	with = mailRoute{host: s.Host, port: strconv.Itoa(in.Port), mode: in.TLS, user: s.Username, from: t.From, dial: m.http.transport.DialContext}
	with.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.Host}
	if s.CASecret != "" {
		if with.tls.RootCAs, err = auth.Roots(s.CASecret, v); err != nil {
			return with, err
		}
	}
	if s.Username != "" {
		with.pass, err = auth.Text(s.PasswordSecret, v)
	}
	return with, err
}

func (m *Email) withOperators(t *schema.EmailTarget) (mailRoute, error) {
	host, port, err := net.SplitHostPort(m.server.Address)
	if err != nil {
		return mailRoute{}, errors.New("it names no mail server, and this executor has none")
	}
	for _, to := range t.To {
		a, err := netmail.ParseAddress(to)
		if err != nil || !m.server.mayHear(a.Address) {
			return mailRoute{}, fmt.Errorf("the operator's mail server sends nothing to %s", boundedHost(to))
		}
	}
	var d net.Dialer
	return mailRoute{
		host: host, port: port, mode: m.server.TLS, user: m.server.Username, pass: m.server.Password, from: m.server.From, dial: d.DialContext,
		tls: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, RootCAs: m.server.Roots},
	}, nil
}

// mayHear reports whether mails may go to an address.
func (s *MailServer) mayHear(address string) bool {
	if len(s.Recipients) == 0 {
		return true
	}
	address = strings.ToLower(address)
	return slices.ContainsFunc(s.Recipients, func(r string) bool {
		r = strings.ToLower(r)
		return r == address || strings.HasPrefix(r, "@") && strings.HasSuffix(address, r)
	})
}

// compose makes the mail of an attempt. The same run makes the same mail.
func compose(c *Call, from string) (*mail.Msg, error) {
	t := c.Work.Email
	var said schema.Email
	if err := json.Unmarshal(c.Payload, &said); err != nil {
		return nil, errors.New("the payload is no mail")
	}
	m := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := m.From(from); err != nil || hasControls(from) {
		return nil, errors.New("the sender is no address")
	}
	for _, to := range t.To {
		if err := m.AddTo(to); err != nil || hasControls(to) {
			return nil, errors.New("a recipient is no address")
		}
	}
	sender, _ := netmail.ParseAddress(from) // as m.From has done
	_, domain, _ := strings.Cut(sender.Address, "@")
	id := func(of string) string { return "<" + of + "@" + domain + ">" }
	m.Subject(oneLine(said.Subject))
	if thread := oneLine(said.Thread); said.First && thread != "" {
		m.SetGenHeader(mail.HeaderMessageID, id(thread))
	} else {
		m.SetGenHeader(mail.HeaderMessageID, id(c.Run.String()))
		if thread != "" {
			m.SetGenHeader(mail.HeaderInReplyTo, id(thread))
			m.SetGenHeader(mail.HeaderReferences, id(thread))
		}
	}
	m.SetDateWithValue(c.Due.UTC())
	m.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no out-of-office notes
	m.SetGenHeader("Carillon-Run-Id", c.Run.String())
	m.SetBodyString(mail.TypeTextPlain, said.Text)
	if said.HTML != "" {
		m.AddAlternativeString(mail.TypeTextHTML, said.HTML)
	}
	return m, nil
}

func hasControls(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// oneLine returns a text that ends no header: without control characters.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
}

// send has the conversation.
func (m *Email) send(ctx context.Context, c *Call, with mailRoute, msg *mail.Msg) Result {
	over, end := context.WithCancel(ctx)
	defer end()
	port, err := strconv.Atoi(with.port)
	if err != nil {
		return Result{Outcome: schema.Failed, Error: "not called: the mail server's port is no number", Uncalled: true, Final: true}
	}
	patience := time.Hour // ctx ends before
	options := []mail.Option{
		mail.WithPort(port), mail.WithTimeout(patience), mail.WithHELO("localhost"), mail.WithTLSConfig(with.tls), mail.WithTLSPolicy(mail.TLSMandatory),
		mail.WithoutNoop(), mail.WithoutRset(), mail.WithDialContextFunc(with.connect(over)),
	}
	switch with.mode {
	case schema.ImplicitTLS:
		options = append(options, mail.WithTLSPolicy(mail.TLSOpportunistic)) // the connection has it
	case schema.NoTLS:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	}
	if with.user != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(with.user), mail.WithPassword(with.pass))
	}
	client, err := mail.NewClient(with.host, options...)
	if err != nil {
		return Result{Outcome: schema.Failed, Error: "not called: the mail server is not valid", Uncalled: true, Final: true}
	}
	if err := client.DialWithContext(over); err != nil {
		return m.failed(ctx, c, with.host, err)
	}
	err = client.Send(msg)
	if !msg.IsDelivered() {
		return m.failed(ctx, c, with.host, err)
	}
	defer time.AfterFunc(quitPatience, end).Stop()
	_ = client.Close() // it has the mail, whatever it says now
	return Result{Outcome: schema.Succeeded, Output: reply(msg.ServerResponse())}
}

// connect returns what makes the connection, which ends with ctx.
func (w *mailRoute) connect(ctx context.Context) mail.DialContextFunc {
	return func(dial context.Context, network, _ string) (net.Conn, error) {
		bounded, cancel := context.WithTimeout(dial, connectTimeout)
		defer cancel()
		conn, err := w.dial(bounded, network, net.JoinHostPort(w.host, w.port))
		if err != nil {
			return nil, err
		}
		raw := conn
		context.AfterFunc(ctx, func() { _ = raw.Close() })
		conn = &boundedConn{Conn: raw, left: maxSMTP}
		if w.mode != schema.ImplicitTLS {
			return conn, nil
		}
		secure := tls.Client(conn, w.tls)
		if err := secure.HandshakeContext(dial); err != nil {
			return nil, err //nolint:wrapcheck // explain reads it
		}
		return secure, nil
	}
}

// boundedConn is a connection of which so many bytes are read.
type boundedConn struct {
	net.Conn
	left int
}

func (b *boundedConn) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// failed says how an attempt ended whose mail was not accepted.
func (m *Email) failed(ctx context.Context, c *Call, host string, err error) Result {
	if ctx.Err() != nil {
		return Ended(ctx)
	}
	res := Result{Outcome: schema.Failed}
	var sent *mail.SendError
	var answer *textproto.Error
	code, what := 0, ""
	switch {
	case errors.As(err, &answer):
		code, what = answer.Code, "the mail server"
		res.Output = reply(answer.Error())
	case errors.As(err, &sent):
		code = sent.ErrorCode()
		what = map[mail.SendErrReason]string{
			mail.ErrSMTPMailFrom: "the sender was refused: the mail server", mail.ErrSMTPRcptTo: "a recipient was refused: the mail server",
			mail.ErrSMTPData: "the mail was refused: the mail server", mail.ErrSMTPDataClose: "the mail was refused: the mail server",
		}[sent.Reason]
		res.Output = reply(sent.Error())
	}
	if code >= 400 && code < 600 {
		if what == "" {
			what = "the mail server"
		}
		res.Error, res.Final = what+" answered "+strconv.Itoa(code), code >= 500
		return res
	}
	res.Output = nil
	text := err.Error()
	switch {
	case errors.Is(err, errTooMuch):
		res.Error = errTooMuch.Error()
	case strings.Contains(text, "does not support STARTTLS"):
		res.Error = "the mail server offers no TLS"
	case errors.Is(err, mail.ErrNoSupportedAuthDiscovered), strings.Contains(text, "does not support SMTP AUTH"):
		res.Error = "the mail server offers no way to say who we are that is safe"
	default:
		var protocol textproto.ProtocolError
		if errors.As(err, &protocol) {
			res.Error = "the answer is not valid SMTP"
			return res
		}
		return m.http.unanswered(ctx, c, host, err)
	}
	return res
}

// reply returns what is kept of a server's answer.
func reply(text string) []byte {
	if text = Truncate(strings.TrimSpace(text), maxReply); text == "" {
		return nil
	}
	return []byte(text)
}
