package target

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

// mailbox is a mail server of a test.
type mailbox struct {
	host      string
	port      int
	authority string // PEM: who issued its certificate

	mu       sync.Mutex
	user     string // who may send; "": all
	password string
	refuse   func(step, what string) error // mail, rcpt or data
	mails    []received
	sessions int
}

// received is a mail that a server has accepted.
type received struct {
	from string
	to   []string
	text string
	tls  bool
}

// mailSession is a conversation with a mailbox.
type mailSession struct {
	of    *mailbox
	mail  received
	known bool
}

func (s *mailSession) Reset()        { s.mail.from, s.mail.to = "", nil }
func (s *mailSession) Logout() error { return nil }

func (s *mailSession) refused(step, what string) error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.of.user != "" && !s.known {
		return smtp.ErrAuthRequired
	}
	if s.of.refuse == nil {
		return nil
	}
	return s.of.refuse(step, what)
}

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	s.mail.from = from
	return s.refused("mail", from)
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.mail.to = append(s.mail.to, to)
	return s.refused("rcpt", to)
}

func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err == nil {
		err = s.refused("data", "")
	}
	if err != nil {
		return err
	}
	s.mail.text = string(text)
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.mails = append(s.of.mails, s.mail)
	return nil
}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		s.of.mu.Lock()
		defer s.of.mu.Unlock()
		if s.known = user == s.of.user && password == s.of.password; !s.known {
			return smtp.ErrAuthFailed
		}
		return nil
	}), nil
}

// newMailbox starts a mail server on loopback: with STARTTLS, with TLS from the first byte on, or
// without any.
func newMailbox(t *testing.T, mode string) *mailbox {
	t.Helper()
	a := newAuthority(t)
	certificate, key, _, _ := a.issue(t, "mail")
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	b := &mailbox{authority: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.host, b.port = "127.0.0.1", l.Addr().(*net.TCPAddr).Port
	s := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.sessions++
		_, secure := c.TLSConnectionState()
		return &mailSession{of: b, mail: received{tls: secure}}, nil
	}))
	s.Domain, s.ErrorLog = "mail.test", log.New(io.Discard, "", 0)
	secure := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	switch mode {
	case schema.StartTLS:
		s.TLSConfig = secure
	case schema.ImplicitTLS:
		l = tls.NewListener(l, secure)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		_ = l.Close() // should the server not know it yet
		t.Logf("the mail server ended: %v", <-ended)
	})
	return b
}

func (b *mailbox) received() []received {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mails)
}

// mailTo returns an attempt that sends a mail by a server, changed by f.
func mailTo(b *mailbox, mode string, f func(t *schema.EmailTarget, said *schema.Email, v auth.Values)) Call {
	to := &schema.EmailTarget{
		To: []string{"ops@example.com"}, From: "Carillon <carillon@example.org>",
		Server: &schema.EmailServer{Host: b.host, Port: b.port, TLS: mode, CASecret: "ca"},
	}
	said, v := schema.Email{Subject: "3 × billing", Text: "three\n"}, auth.Values{"ca": {[]byte(b.authority)}}
	if f != nil {
		f(to, &said, v)
	}
	c := callTo("")
	c.Work = schema.Work{Email: to}.InForce()
	c.Payload, _ = json.Marshal(said) // a struct of texts always can
	c.Values = v
	return c
}

func newEmail(t *testing.T, server MailServer) *Email {
	t.Helper()
	return NewEmail(newHTTP(t, HTTPConfig{}), server)
}

// parts returns the header of a mail, and its parts by their type.
func parts(t *testing.T, text string) (mail.Header, map[string]string) {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatalf("a mail cannot be read: %v\n%s", err, text)
	}
	found := make(map[string]string)
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	decode := func(encoding string, r io.Reader) string {
		if strings.EqualFold(encoding, "quoted-printable") {
			r = quotedprintable.NewReader(r)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(body), "\r\n", "\n")
	}
	if !strings.HasPrefix(kind, "multipart/") {
		found[kind] = decode(m.Header.Get("Content-Transfer-Encoding"), m.Body)
		return m.Header, found
	}
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return m.Header, found
		}
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type"))
		found[kind] = decode(p.Header.Get("Content-Transfer-Encoding"), p)
	}
}

// Mails are sent by both kinds of TLS, and by none where the rule says so, with a user where there
// is one.
func TestEmailIsSent(t *testing.T) {
	for _, mode := range schema.EmailTLS {
		t.Run(mode, func(t *testing.T) {
			b := newMailbox(t, mode)
			if mode != schema.NoTLS {
				b.user, b.password = "me", "s3cret-word"
			}
			c := mailTo(b, mode, func(to *schema.EmailTarget, said *schema.Email, v auth.Values) {
				to.To = append(to.To, "Second <second@example.com>")
				if said.HTML = "<p>three</p>\n"; mode != schema.NoTLS {
					to.Server.Username, to.Server.PasswordSecret, v["pw"] = "me", "pw", [][]byte{[]byte("s3cret-word")}
				}
			})
			if res := newEmail(t, MailServer{}).Run(t.Context(), c); res.Outcome != schema.Succeeded || res.Error != "" {
				t.Fatalf("Run = %+v", res)
			}
			all := b.received()
			if len(all) != 1 || all[0].from != "carillon@example.org" || !slices.Equal(all[0].to, []string{"ops@example.com", "second@example.com"}) {
				t.Fatalf("the server has %+v", all)
			}
			header, said := parts(t, all[0].text)
			if said["text/plain"] != "three\n" || said["text/html"] != "<p>three</p>\n" {
				t.Errorf("the mail says %q", said)
			}
			subject, err := new(mime.WordDecoder).DecodeHeader(header.Get("Subject"))
			if err != nil || subject != "3 × billing" || header.Get("Message-Id") != "<"+c.Run.String()+"@example.org>" || header.Get("In-Reply-To") != "" ||
				header.Get("Auto-Submitted") != "auto-generated" || header.Get("To") == "" {
				t.Errorf("header = %v, subject %q", header, subject)
			}
			if at, err := header.Date(); err != nil || !at.Equal(c.Due.Truncate(1e9)) {
				t.Errorf("Date = %s, %v; want that of the attempt's due time", at, err)
			}
		})
	}
}

// The mails of a group are a thread: the first one has its name, the others answer it.
func TestEmailsOfAGroupAreAThread(t *testing.T) {
	b := newMailbox(t, schema.StartTLS)
	m := newEmail(t, MailServer{})
	for i, first := range []bool{true, false, false} {
		c := mailTo(b, schema.StartTLS, func(_ *schema.EmailTarget, said *schema.Email, _ auth.Values) {
			said.Thread, said.First = "group-1", first
		})
		c.Run = schema.MakeEntryID(c.Due, 7, uint64(i))
		if res := m.Run(t.Context(), c); res.Outcome != schema.Succeeded {
			t.Fatalf("Run = %+v", res)
		}
	}
	ids := make(map[string]bool)
	for i, got := range b.received() {
		header, _ := parts(t, got.text)
		ids[header.Get("Message-Id")] = true
		want := "<group-1@example.org>"
		if i == 0 && (header.Get("Message-Id") != want || header.Get("References") != "") || i > 0 && (header.Get("In-Reply-To") != want || header.Get("References") != want) {
			t.Errorf("mail %d has the header %v", i, header)
		}
	}
	if len(ids) != 3 {
		t.Errorf("Message-IDs = %v, want 3", ids)
	}
}

// Whatever a mail says, its header and its recipients are those that it was to have.
func TestEmailHeadersCannotBeInjected(t *testing.T) {
	b := newMailbox(t, schema.StartTLS)
	const evil = "a\r\nBcc: all@example.com\r\nX-Evil: 1\r\n\r\n.\r\nMAIL FROM:<x@y>\r\n\x00\x1b"
	c := mailTo(b, schema.StartTLS, func(_ *schema.EmailTarget, said *schema.Email, _ auth.Values) {
		said.Subject, said.Text, said.HTML, said.Thread = evil, evil, evil, evil
	})
	if res := newEmail(t, MailServer{}).Run(t.Context(), c); res.Outcome != schema.Succeeded {
		t.Fatalf("Run = %+v", res)
	}
	all := b.received()
	if len(all) != 1 || !slices.Equal(all[0].to, []string{"ops@example.com"}) {
		t.Fatalf("the server has %+v, want one mail to one recipient", all)
	}
	header, said := parts(t, all[0].text)
	for name := range header {
		if !slices.Contains([]string{"Auto-Submitted", "Carillon-Run-Id", "Content-Type", "Date", "From", "In-Reply-To", "Message-Id", "Mime-Version", "References", "Subject", "To"}, name) {
			t.Errorf("the mail has a header %s: %s", name, header.Get(name))
		}
	}
	if !strings.Contains(said["text/plain"], "MAIL FROM") {
		t.Errorf("the mail says %q, want all of it in its text", said)
	}
	for name, change := range map[string]func(*schema.EmailTarget){
		"sender":    func(t *schema.EmailTarget) { t.From = "a@example.com\r\nBcc: b@example.com" },
		"recipient": func(t *schema.EmailTarget) { t.To = []string{"a@example.com>\r\nRCPT TO:<b@example.com"} },
	} {
		c := mailTo(b, schema.StartTLS, func(to *schema.EmailTarget, _ *schema.Email, _ auth.Values) { change(to) })
		if res := newEmail(t, MailServer{}).Run(t.Context(), c); res.Outcome != schema.Failed || !res.Final || !res.Uncalled {
			t.Errorf("Run with a %s of two lines = %+v, want that nothing is called", name, res)
		}
	}
}

// What a server refuses for now is tried again, what it refuses for good is not; its words are
// kept.
func TestEmailThatIsRefused(t *testing.T) {
	busy := &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "come back later"}
	unknown := &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
	for name, c := range map[string]struct {
		step  string
		err   error
		final bool
		want  string
	}{
		"451 for the sender":     {"mail", busy, false, "the sender was refused: the mail server answered 451"},
		"451 for a recipient":    {"rcpt", busy, false, "a recipient was refused: the mail server answered 451"},
		"451 for the mail":       {"data", busy, false, "the mail was refused: the mail server answered 451"},
		"550 for a recipient":    {"rcpt", unknown, true, "a recipient was refused: the mail server answered 550"},
		"554 for what it says":   {"data", &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "spam"}, true, "the mail was refused: the mail server answered 554"},
		"its words have secrets": {"rcpt", &smtp.SMTPError{Code: 550, Message: "s3cret-word"}, true, "a recipient was refused: the mail server answered 550"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newMailbox(t, schema.StartTLS)
			b.user, b.password = "me", "s3cret-word"
			b.refuse = func(step, _ string) error {
				if step == c.step {
					return c.err
				}
				return nil
			}
			call := mailTo(b, schema.StartTLS, func(to *schema.EmailTarget, _ *schema.Email, v auth.Values) {
				to.Server.Username, to.Server.PasswordSecret, v["pw"] = "me", "pw", [][]byte{[]byte("s3cret-word")}
			})
			m := newEmail(t, MailServer{})
			res := m.Run(t.Context(), call)
			if res.Outcome != schema.Failed || res.Final != c.final || res.Error != c.want || strings.Contains(string(res.Output), "s3cret") {
				t.Errorf("Run = %+v, output %s; want final %t and %q", res, res.Output, c.final, c.want)
			}
			var said *smtp.SMTPError
			if errors.As(c.err, &said) && !strings.Contains(said.Message, "s3cret") && !strings.Contains(string(res.Output), said.Message) {
				t.Errorf("output = %s, want the server's words", res.Output)
			}
			if (res.Health() == Unhealthy) == c.final {
				t.Errorf("health = %d; a server that refuses a mail for good is not ill", res.Health())
			}
			b.mu.Lock()
			b.refuse = nil
			b.mu.Unlock()
			if res := m.Run(t.Context(), call); res.Outcome != schema.Succeeded || len(b.received()) != 1 {
				t.Errorf("Run again = %+v, with %d mails", res, len(b.received()))
			}
		})
	}
}

// A server is not told a mail, nor a password, that others could read or that is not the one it was
// to be.
func TestEmailGoesToNoOtherServer(t *testing.T) {
	plain, secure := newMailbox(t, schema.NoTLS), newMailbox(t, schema.StartTLS)
	other := newMailbox(t, schema.ImplicitTLS)
	secure.user, secure.password = "me", "s3cret-word"
	user := func(to *schema.EmailTarget, _ *schema.Email, v auth.Values) {
		to.Server.Username, to.Server.PasswordSecret, v["pw"] = "me", "pw", [][]byte{[]byte("wrong-word")}
	}
	for name, c := range map[string]struct {
		call Call
		want string
	}{
		"no TLS": {mailTo(plain, schema.StartTLS, nil), "the mail server offers no TLS"},
		"another authority": {mailTo(secure, schema.StartTLS, func(_ *schema.EmailTarget, _ *schema.Email, v auth.Values) {
			v["ca"] = [][]byte{[]byte(other.authority)}
		}), "the certificate is signed by an unknown authority"},
		"another authority, implicit": {mailTo(other, schema.ImplicitTLS, func(_ *schema.EmailTarget, _ *schema.Email, v auth.Values) {
			v["ca"] = [][]byte{[]byte(secure.authority)}
		}), "the certificate is signed by an unknown authority"},
		"another name": {mailTo(secure, schema.StartTLS, func(to *schema.EmailTarget, _ *schema.Email, _ auth.Values) {
			to.Server.Host = "localhost"
		}), "the certificate is not for this host"},
		"a password without TLS": {mailTo(plain, schema.NoTLS, user), "the mail server offers no way to say who we are that is safe"},
		"a wrong password":       {mailTo(secure, schema.StartTLS, user), "the mail server answered 535"},
		"no password": {mailTo(secure, schema.StartTLS, func(to *schema.EmailTarget, _ *schema.Email, _ auth.Values) {
			to.Server.Username, to.Server.PasswordSecret = "me", "pw"
		}), "not called: there is no secret pw"},
		"no mail server": {mailTo(secure, schema.StartTLS, func(to *schema.EmailTarget, _ *schema.Email, _ auth.Values) {
			to.Server = nil
		}), "not called: it names no mail server, and this executor has none"},
	} {
		res := newEmail(t, MailServer{}).Run(t.Context(), c.call)
		if res.Outcome != schema.Failed || res.Error != c.want || strings.Contains(string(res.Output), "-word") {
			t.Errorf("%s: Run = %+v, output %s; want %q", name, res, res.Output, c.want)
		}
	}
	if n := len(plain.received()) + len(secure.received()) + len(other.received()); n != 0 {
		t.Errorf("%d mails were sent, want none", n)
	}
}

// A tenant's mail server is dialled as its HTTP calls are; the operator's is where the operator
// says.
func TestEmailServersAreGuarded(t *testing.T) {
	b := newMailbox(t, schema.StartTLS)
	h, err := NewHTTP(HTTPConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	for _, host := range []string{"127.0.0.1", "localhost", "169.254.169.254", "::1"} {
		c := mailTo(b, schema.StartTLS, func(to *schema.EmailTarget, _ *schema.Email, _ auth.Values) { to.Server.Host = host })
		if res := NewEmail(h, MailServer{}).Run(t.Context(), c); !res.Final || res.Error != host+": address is not allowed" {
			t.Errorf("Run with the server %s = %+v, want that it is denied", host, res)
		}
	}
	if b.sessions != 0 {
		t.Errorf("%d conversations, want none", b.sessions)
	}
	roots, err := auth.Roots("ca", auth.Values{"ca": {[]byte(b.authority)}})
	if err != nil {
		t.Fatal(err)
	}
	b.user, b.password = "node", "s3cret-word"
	operators := NewEmail(h, MailServer{
		Address: net.JoinHostPort(b.host, strconv.Itoa(b.port)), TLS: schema.StartTLS, Roots: roots, Username: b.user, Password: b.password,
		From: "carillon@example.net", Recipients: []string{"@Example.com", "one@example.org"},
	})
	for to, want := range map[string]bool{
		"ops@example.com": true, "Ops <OPS@EXAMPLE.COM>": true, "one@example.org": true,
		"two@example.org": false, "ops@evilexample.com": false, "ops@example.com.evil.test": false, "Ops@example.com <x@evil.test>": false,
	} {
		c := mailTo(b, "", func(t *schema.EmailTarget, _ *schema.Email, _ auth.Values) {
			t.To, t.From, t.Server = []string{to}, "", nil
		})
		was := len(b.received())
		res := operators.Run(t.Context(), c)
		if (res.Outcome == schema.Succeeded) != want || (len(b.received()) > was) != want || !want && !res.Final {
			t.Errorf("Run to %s by the operator's server = %+v, want success %t", to, res, want)
		}
	}
	if got := b.received(); len(got) == 0 || got[0].from != "carillon@example.net" {
		t.Errorf("the server has %+v, want mails of the operator's address", got)
	}
}

// hanging starts a server that says the lines, one for each that it hears, and then hangs, until
// the test ends. It tells when it hangs.
func hanging(t *testing.T, lines []string, then func(c net.Conn)) (b *mailbox, hangs chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hangs = make(chan struct{}, 1)
	var served sync.WaitGroup
	served.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		in := bufio.NewReader(c)
		for i, line := range lines {
			if i > 0 {
				if _, err := in.ReadString('\n'); err != nil {
					return
				}
			}
			if _, err := io.WriteString(c, line); err != nil {
				return
			}
		}
		hangs <- struct{}{}
		if then != nil {
			then(c)
			return
		}
		_, _ = io.Copy(io.Discard, in) // until the client goes
	})
	t.Cleanup(func() {
		_ = l.Close()
		served.Wait()
	})
	return &mailbox{host: "127.0.0.1", port: l.Addr().(*net.TCPAddr).Port}, hangs
}

// A server that hangs, wherever, is left when the attempt ends: at once.
func TestEmailServerThatHangs(t *testing.T) {
	for name, lines := range map[string][]string{
		"before its greeting":   nil,
		"after its greeting":    {"220 hello\r\n"},
		"in the middle of one":  {"220-hel"},
		"after EHLO":            {"220 hello\r\n", "250 mail.test\r\n"},
		"after the sender":      {"220 hello\r\n", "250 mail.test\r\n", "250 ok\r\n"},
		"when it gets the mail": {"220 hello\r\n", "250 mail.test\r\n", "250 ok\r\n", "250 ok\r\n", "354 go on\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			b, hangs := hanging(t, lines, nil)
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			go func() {
				<-hangs
				end(ErrTimeout)
			}()
			c := mailTo(b, schema.NoTLS, func(to *schema.EmailTarget, _ *schema.Email, _ auth.Values) { to.Server.CASecret = "" })
			if res := newEmail(t, MailServer{}).Run(ctx, c); res.Outcome != schema.TimedOut {
				t.Errorf("Run = %+v, want that it timed out", res)
			}
		})
	}
}

// A server decides neither how much memory it takes, nor what becomes of a mail that it has
// accepted.
func TestEmailServersThatMisbehave(t *testing.T) {
	accepted := []string{"220 hello\r\n", "250 mail.test\r\n", "250 ok\r\n", "250 ok\r\n", "354 go on\r\n"}
	flood := func(c net.Conn) {
		for line := bytes.Repeat([]byte("x"), 32<<10); ; {
			if _, err := c.Write(line); err != nil {
				return
			}
		}
	}
	untilDot := func(reply string) func(net.Conn) {
		return func(c net.Conn) {
			for in := bufio.NewReader(c); ; {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					_, _ = io.WriteString(c, reply)
					return
				}
			}
		}
	}
	for name, c := range map[string]struct {
		lines   []string
		then    func(net.Conn)
		outcome schema.Outcome
		want    string
	}{
		"a line without an end":         {nil, flood, schema.Failed, "the mail server says too much"},
		"no SMTP":                       {[]string{"HTTP/1.1 400 Bad Request\r\n\r\n"}, nil, schema.Failed, "the answer is not valid SMTP"},
		"it goes when it has the mail":  {accepted, untilDot(""), schema.Failed, "the connection failed"},
		"it goes once it has taken it":  {accepted, untilDot("250 2.0.0 queued as 7\r\n"), schema.Succeeded, ""},
		"it is not there for the time":  {[]string{"421 4.3.2 closing\r\n"}, nil, schema.Failed, "the mail server answered 421"},
		"it takes mails from no client": {[]string{"554 5.7.1 no\r\n"}, nil, schema.Failed, "the mail server answered 554"},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := hanging(t, c.lines, c.then)
			call := mailTo(b, schema.NoTLS, func(to *schema.EmailTarget, _ *schema.Email, _ auth.Values) { to.Server.CASecret = "" })
			res := newEmail(t, MailServer{}).Run(t.Context(), call)
			if res.Outcome != c.outcome || res.Error != c.want || res.Final != strings.Contains(c.want, "554") {
				t.Errorf("Run = %+v, want %s and %q", res, c.outcome, c.want)
			}
			if c.outcome == schema.Succeeded && !strings.Contains(string(res.Output), "queued as 7") {
				t.Errorf("output = %s, want the server's words", res.Output)
			}
		})
	}
}
