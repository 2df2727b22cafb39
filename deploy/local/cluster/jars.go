package cluster

import (
	"bufio"
	"context"
	"crypto/sha256"
	_ "embed" // the build file of the jars and their sums
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed cassandra/pom.xml
var pomXML []byte

//go:embed cassandra/jars.sha256
var jarSums string

// sumsPath is where jarSums lies in the repository.
const sumsPath = "deploy/local/cluster/cassandra/jars.sha256"

// minJava is the oldest Java that the committed JVM flags are for.
const minJava = 17

// ErrUnavailable says that this machine cannot run Cassandra; errors that wrap it give the reason.
var ErrUnavailable = errors.New("no local Cassandra")

// Available says whether this machine can run a local Cassandra, and if not, why: no Linux, no
// Java, a Java that is too old, or no Maven and no jars from an earlier run. The error wraps
// ErrUnavailable.
func Available() error {
	if err := platformError(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := findJava(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		c, cacheErr := openCache(func(string) {})
		if cacheErr != nil || !exists(filepath.Join(c.dir, jarsName())) {
			return fmt.Errorf("%w: its jars are not in the cache, and Maven (mvn), which brings them, is not in PATH: %w", ErrUnavailable, err)
		}
	}
	return nil
}

// A java is a Java program and its version.
type java struct {
	path    string
	version string // of `java -version`, all of it
}

// findJava returns the Java of JAVA_HOME, else of PATH, if it is new enough.
func findJava(ctx context.Context) (java, error) {
	path, from := "java", "PATH"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		path, from = filepath.Join(home, "bin", "java"), "JAVA_HOME"
	}
	path, err := exec.LookPath(path)
	if err != nil {
		return java{}, fmt.Errorf("no Java by %s: %w", from, err)
	}
	out, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
	if err != nil {
		return java{}, fmt.Errorf("ask %s for its version: %w", path, err)
	}
	major, err := javaMajor(string(out))
	if err != nil {
		return java{}, fmt.Errorf("ask %s for its version: %w", path, err)
	}
	if major < minJava {
		return java{}, fmt.Errorf("%s (by %s) is Java %d, and %d or later is needed", path, from, major, minJava)
	}
	return java{path: path, version: string(out)}, nil
}

var javaVersion = regexp.MustCompile(`version "(\d+)(?:\.(\d+))?`)

// javaMajor reads the feature release off the output of `java -version`: 17 for "17.0.15", 8 for
// "1.8.0_392".
func javaMajor(out string) (int, error) {
	m := javaVersion.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("no version in %q", out)
	}
	number := m[1]
	if number == "1" && m[2] != "" {
		number = m[2]
	}
	return strconv.Atoi(number)
}

// shortHash names a part of the cache after what it is made from.
func shortHash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(p), p) // a hash's Write returns no error
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

func jarsName() string { return "cassandra-jars-" + shortHash(jarSums) }

// jars returns Cassandra's jars in the order of the class path: Maven brings them, each is checked
// against its committed sum.
func (c *cache) jars(ctx context.Context) ([]string, error) {
	dir, err := c.part(ctx, jarsName(), func(path string) error {
		c.say(fmt.Sprintf("fetching Cassandra's jars by Maven: this happens once, may take minutes, and needs Maven and Java %d or later", minJava))
		if err := fetchJars(ctx, pomXML, path); err != nil {
			return err
		}
		return checkSums(path, jarSums)
	})
	if err != nil {
		return nil, err
	}
	return listJars(dir)
}

// fetchJars has Maven copy the jars of a build file into dir.
func fetchJars(ctx context.Context, pom []byte, dir string) (err error) {
	project, err := os.MkdirTemp("", "carillon-jars-*")
	if err != nil {
		return fmt.Errorf("make Maven project: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(project)) }()
	if err := os.WriteFile(filepath.Join(project, "pom.xml"), pom, 0o600); err != nil {
		return fmt.Errorf("make Maven project: %w", err)
	}
	_, err = run(ctx, project, "mvn", "--quiet", "--batch-mode", "--strict-checksums", "dependency:copy-dependencies", "-DoutputDirectory="+dir)
	return err
}

// listJars returns the jars in dir in byte order. The JVM uses its class archive only with the
// class path it was made with, so the order must be one and the same always.
func listJars(dir string) ([]string, error) {
	jars, err := filepath.Glob(filepath.Join(dir, "*.jar"))
	if err != nil {
		return nil, fmt.Errorf("list jars: %w", err)
	}
	slices.Sort(jars)
	return jars, nil
}

// checkSums compares the jars in dir with sums (the format of sha256sum). It names every jar that
// differs, is missing or is not listed.
func checkSums(dir, sums string) error {
	want := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(sums))
	for lines.Scan() {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || len(sum) != 2*sha256.Size {
			return fmt.Errorf("check jars: unreadable line %q in the list of sums", lines.Text())
		}
		want[name] = sum
	}
	got, err := sumJars(dir)
	if err != nil {
		return err
	}
	var faults []error
	for name, sum := range got {
		switch w, listed := want[name]; {
		case !listed:
			faults = append(faults, fmt.Errorf("jar %s is not in the list of sums", name))
		case w != sum:
			faults = append(faults, fmt.Errorf("jar %s has the sum %s, want %s", name, sum, w))
		}
	}
	for name := range want {
		if _, there := got[name]; !there {
			faults = append(faults, fmt.Errorf("jar %s is missing", name))
		}
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

// sumJars returns the SHA-256 of each jar in dir by name.
func sumJars(dir string) (map[string]string, error) {
	jars, err := listJars(dir)
	if err != nil {
		return nil, err
	}
	sums := make(map[string]string, len(jars))
	for _, jar := range jars {
		sum, err := sumFile(jar)
		if err != nil {
			return nil, fmt.Errorf("sum %s: %w", filepath.Base(jar), err)
		}
		sums[filepath.Base(jar)] = sum
	}
	return sums, nil
}

func sumFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Jars brings Cassandra's jars into the cache, checked, and returns their folder.
func Jars(ctx context.Context, say func(string)) (string, error) {
	c, err := openCache(say)
	if err != nil {
		return "", err
	}
	if _, err := c.jars(ctx); err != nil {
		return "", err
	}
	return filepath.Join(c.dir, jarsName()), nil
}

// UpdateSums rewrites the committed lists of sums, of Cassandra and of Kafka, for the jars that
// Maven fetches now, and returns their paths and the number of jars. It is for changes of the build
// files; review the difference before you commit it.
func UpdateSums(ctx context.Context) (paths []string, jars int, err error) {
	top, err := repositoryTop()
	if err != nil {
		return nil, 0, err
	}
	for _, of := range []struct {
		pom  []byte
		path string
	}{{pomXML, sumsPath}, {kafkaPOM, kafkaSumsPath}} {
		n, err := updateSums(ctx, of.pom, filepath.Join(top, of.path))
		if err != nil {
			return nil, 0, err
		}
		paths, jars = append(paths, filepath.Join(top, of.path)), jars+n
	}
	return paths, jars, nil
}

// updateSums writes the list of sums of the jars of a build file, and returns how many they are.
func updateSums(ctx context.Context, pom []byte, path string) (jars int, err error) {
	dir, err := os.MkdirTemp("", "carillon-jars-*")
	if err != nil {
		return 0, fmt.Errorf("update sums: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := fetchJars(ctx, pom, dir); err != nil {
		return 0, fmt.Errorf("update sums: %w", err)
	}
	sums, err := sumJars(dir)
	if err != nil {
		return 0, err
	}
	var lines []string
	for name, sum := range sums {
		lines = append(lines, sum+"  "+name+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[2*sha256.Size:], b[2*sha256.Size:]) })
	return len(lines), writeFile(path, []byte(strings.Join(lines, "")), 0o644)
}
