package schema

// EmailTarget is a mail. What it says is the payload, an Email. Only notifications send mails.
type EmailTarget struct {
	To []string `json:"to"` // addresses, at most MaxEmailRecipients
	// From is who sends it, with Server; without, that is the operator's to say.
	From   string       `json:"from,omitempty"`
	Server *EmailServer `json:"server,omitempty"` // nil: the operator's
}

// MaxEmailRecipients bounds the recipients of a mail.
const MaxEmailRecipients = 20

// EmailServer is a mail server that takes mails by SMTP.
type EmailServer struct {
	Host string `json:"host"`
	Port int    `json:"port,omitempty"` // default 465 with ImplicitTLS, else 587
	TLS  string `json:"tls,omitempty"`  // one of EmailTLS; default StartTLS
	// Username and PasswordSecret, the name of a secret, say who we are; "": the server does not
	// ask.
	Username       string `json:"username,omitempty"`
	PasswordSecret string `json:"password_secret,omitempty"`
	CASecret       string `json:"ca_secret,omitempty"` // PEM: who its certificate is to come from; "": those of the system
}

// How a conversation with a mail server is encrypted.
const (
	StartTLS    = "starttls" // by the command STARTTLS, without which nothing is sent
	ImplicitTLS = "implicit" // from the first byte on
	NoTLS       = "none"     // not at all
)

// EmailTLS are all of them. Do not modify.
var EmailTLS = []string{StartTLS, ImplicitTLS, NoTLS}

// InForce returns s with every default filled in.
func (s *EmailServer) InForce() EmailServer {
	out := *s
	out.TLS = or(out.TLS, StartTLS)
	if out.TLS == ImplicitTLS {
		out.Port = or(out.Port, 465)
	}
	out.Port = or(out.Port, 587)
	return out
}

// Email is what a mail says.
type Email struct {
	Subject string `json:"subject"`
	Text    string `json:"text"`
	HTML    string `json:"html,omitempty"` // the same
	// Thread is a name that mails have in common that belong together, in the form of the local
	// part of an address; First: it is the first of them.
	Thread string `json:"thread,omitempty"`
	First  bool   `json:"first,omitempty"`
}
