package cluster

import (
	"context"
	"crypto/rand"
	_ "embed" // the build file of the jars and their sums
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

//go:embed kafka/pom.xml
var kafkaPOM []byte

//go:embed kafka/jars.sha256
var kafkaSums string

// kafkaSumsPath is where kafkaSums lies in the repository.
const kafkaSumsPath = "deploy/local/cluster/kafka/jars.sha256"

// A KafkaBroker is one broker of Apache Kafka, which is its own controller (KRaft), run as plain
// jars as Cassandra is. It has a listener for each way of speaking to it.
type KafkaBroker struct {
	Plain string // host:port: neither TLS nor user
	SASL  string // host:port: a user, KafkaUser with KafkaPassword, by PLAIN
	// Inner is the host:port of a listener that says that the broker is at another address,
	// KafkaElsewhere, as one does that is meant for another network.
	Inner string
}

// What tests of a KafkaBroker use.
const (
	KafkaUser      = "carillon"
	KafkaPassword  = "s3cret-of-kafka"
	KafkaElsewhere = "10.98.76.54:9095"
)

const (
	kafkaMain    = "kafka.Kafka"
	kafkaStorage = "kafka.tools.StorageTool"
)

// kafkaFlags are those of the JVM: a broker of a test has little to do.
var kafkaFlags = []string{"-Xms64M", "-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+PerfDisableSharedMem", "-Djava.net.preferIPv4Stack=true", "-Djava.awt.headless=true"}

// RequireKafka skips the test if this machine cannot run Kafka, in words that say what is left out.
// With CI=true it fails instead.
func RequireKafka(tb testing.TB) {
	tb.Helper()
	Require(tb) // it needs what Cassandra needs: Linux, Java and Maven
}

// StartKafka starts a broker of the test's own, without topics, and stops it when the test ends;
// should the test program die first, the kernel kills it. See RequireKafka.
func StartKafka(tb testing.TB) KafkaBroker {
	tb.Helper()
	RequireKafka(tb)
	ctx, cancel := context.WithTimeout(tb.Context(), testStartLimit)
	defer cancel()
	c, err := openCache(func(line string) { tb.Log(line) })
	if err != nil {
		tb.Fatalf("start Kafka: %v", err)
	}
	java, err := findJava(ctx)
	if err != nil {
		tb.Fatalf("start Kafka: %v", err)
	}
	jars, err := c.kafkaJars(ctx)
	if err != nil {
		tb.Fatalf("start Kafka: %v", err)
	}
	dir, ip := tb.TempDir(), drawAddress()
	b := KafkaBroker{Plain: net.JoinHostPort(ip, "9092"), SASL: net.JoinHostPort(ip, "9094"), Inner: net.JoinHostPort(ip, "9095")}
	properties := filepath.Join(dir, "server.properties")
	if err := writeFile(properties, kafkaProperties(ip, filepath.Join(dir, "data")), 0o600); err != nil {
		tb.Fatalf("start Kafka: %v", err)
	}
	argv := append(append([]string{java.path}, kafkaFlags...), "-cp", strings.Join(jars, string(filepath.ListSeparator)))
	format := append(argv[1:len(argv):len(argv)], kafkaStorage, "format", "--cluster-id", drawUUID(), "--config", properties)
	if _, err := run(ctx, dir, java.path, format...); err != nil {
		tb.Fatalf("format the broker's folder: %v", err)
	}
	l, log := newLauncher(false), filepath.Join(dir, "log")
	id, err := l.start(dir, log, append(argv[:len(argv):len(argv)], kafkaMain, properties))
	if err != nil {
		l.close()
		tb.Fatalf("start Kafka: %v", err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("end of the log of Kafka:\n%s", logTail(log))
		}
		if err := id.kill(context.Background()); err != nil { // nothing of it is to be kept
			tb.Errorf("stop Kafka: %v", err)
		}
		l.close()
	})
	ready, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	err = poll(ready, func() (bool, error) {
		if id.state() == Stopped {
			return false, errors.New("it ended before it listened")
		}
		dialer := net.Dialer{Timeout: time.Second}
		conn, err := dialer.DialContext(ready, "tcp", b.Plain)
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		return true, conn.Close()
	})
	if err != nil {
		tb.Fatalf("start Kafka: %v", err)
	}
	return b
}

// drawAddress returns an address of this machine on which nobody else listens.
func drawAddress() string {
	var b [2]byte
	_, _ = rand.Read(b[:]) // it never fails
	return "127.77." + strconv.Itoa(int(b[0])) + "." + strconv.Itoa(1+int(b[1])%254)
}

// drawUUID returns an id as Kafka writes them.
func drawUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[0] &= 0x7f           // one that begins with a hyphen would be read as a flag
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// kafkaProperties returns the configuration of a broker at ip.
func kafkaProperties(ip, data string) []byte {
	return fmt.Appendf(nil, `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%[1]s:9093
listeners=PLAIN://%[1]s:9092,CONTROLLER://%[1]s:9093,USERS://%[1]s:9094,INNER://%[1]s:9095
advertised.listeners=PLAIN://%[1]s:9092,USERS://%[1]s:9094,INNER://%[2]s
listener.security.protocol.map=PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT,USERS:SASL_PLAINTEXT,INNER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAIN
sasl.enabled.mechanisms=PLAIN
listener.name.users.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_%[3]s="%[4]s";
log.dirs=%[5]s
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
num.io.threads=2
num.network.threads=1
log.cleaner.enable=false
`, ip, KafkaElsewhere, KafkaUser, KafkaPassword, data)
}

// kafkaJars returns Kafka's jars, as jars returns Cassandra's.
func (c *cache) kafkaJars(ctx context.Context) ([]string, error) {
	dir, err := c.part(ctx, "kafka-jars-"+shortHash(kafkaSums), func(path string) error {
		c.say("fetching Kafka's jars by Maven: this happens once, and may take minutes")
		if err := fetchJars(ctx, kafkaPOM, path); err != nil {
			return err
		}
		return checkSums(path, kafkaSums)
	})
	if err != nil {
		return nil, err
	}
	return listJars(dir)
}
