package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startTimeout bounds the wait for the server to take connections. Usually it takes milliseconds;
// with many messages in its directory longer.
const startTimeout = 30 * time.Second

// Config says how the server is. Dir must be set.
type Config struct {
	Dir      string // where streams are kept; made if need be
	MaxBytes int64  // bound of all streams together; 0 = what the disk allows

	MaxPayload int32 // bound of a message, bytes; 0 = that of NATS, 1 MiB

	// Listen makes the server take TCP connections on the loopback interface, too: at Port, or at
	// any free one if that is 0.
	Listen bool
	Port   int

	Logger *slog.Logger // of what the server reports; nil logs nothing
}

// Server is a running server.
type Server struct{ s *server.Server }

// Start starts a server and returns once it takes connections. The caller must Close it.
func Start(cfg Config) (*Server, error) {
	if cfg.Dir == "" {
		return nil, errors.New("start nats: no directory")
	}
	opts := &server.Options{
		ServerName:        "embedded",
		Host:              "127.0.0.1",
		Port:              cfg.Port,
		DontListen:        !cfg.Listen,
		JetStream:         true,
		StoreDir:          cfg.Dir,
		JetStreamMaxStore: cfg.MaxBytes,
		MaxPayload:        cfg.MaxPayload,
		NoSigs:            true,
		NoLog:             cfg.Logger == nil,
	}
	if cfg.Listen && cfg.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	// the server would log that the port is taken, and never be ready
	if cfg.Listen && cfg.Port != 0 {
		l, err := net.Listen("tcp", net.JoinHostPort(opts.Host, strconv.Itoa(cfg.Port)))
		if err != nil {
			return nil, fmt.Errorf("start nats: %w", err)
		}
		if err := l.Close(); err != nil {
			return nil, fmt.Errorf("start nats: %w", err)
		}
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("start nats: %w", err)
	}
	if cfg.Logger != nil {
		s.SetLoggerV2(logger{cfg.Logger}, false, false, false)
	}
	s.Start()
	if !s.ReadyForConnections(startTimeout) {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("start nats: not ready after %v", startTimeout)
	}
	return &Server{s}, nil
}

// InProcessConn makes a connection to the server without a socket. What is written to it lies in
// memory until the server reads it, at most mostBehind.
func (s *Server) InProcessConn() (net.Conn, error) {
	conn, err := s.s.InProcessConn()
	if err != nil {
		return nil, err
	}
	return newBehind(conn), nil
}

// URL returns where the server listens, "" if it does not.
func (s *Server) URL() string {
	if a, ok := s.s.Addr().(*net.TCPAddr); ok {
		return "nats://" + a.String()
	}
	return ""
}

// Close stops the server and waits until it has stopped. Streams stay in its directory.
func (s *Server) Close() {
	s.s.Shutdown()
	s.s.WaitForShutdown()
}

// logger passes on what the server reports. Its notices are debug output here: the program says
// itself what matters.
type logger struct{ log *slog.Logger }

func (l logger) say(level func(string, ...any), format string, v []any) {
	level("nats server", "report", fmt.Sprintf(format, v...))
}

func (l logger) Noticef(format string, v ...any) { l.say(l.log.Debug, format, v) }
func (l logger) Debugf(format string, v ...any)  { l.say(l.log.Debug, format, v) }
func (l logger) Tracef(format string, v ...any)  { l.say(l.log.Debug, format, v) }
func (l logger) Warnf(format string, v ...any)   { l.say(l.log.Warn, format, v) }
func (l logger) Errorf(format string, v ...any)  { l.say(l.log.Error, format, v) }
func (l logger) Fatalf(format string, v ...any)  { l.say(l.log.Error, format, v) }
