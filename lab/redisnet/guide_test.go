package redisnet_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/redistest"
	"github.com/go-politeness/politeness/redis/redisbudget"
	"github.com/go-politeness/politeness/redis/redislimit"
	"github.com/go-politeness/politeness/redis/redisrobots"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// fence is a fenced block of a guide, which a list may indent.
var fence = regexp.MustCompile("(?ms)^([ \t]*)```(sh|conf)\n(.*?)^[ \t]*```")

// refused is what redis-cli prints for a command that the server refuses: its exit status is 0 then.
var refused = regexp.MustCompile(`(?m)^(ERR|NO[A-Z]+|WRONGPASS|OOM|READONLY|INPROG) `)

// TestTheGuidesCommandsWork runs each command of docs/many-machines.md, in its order, as a reader
// would: on servers with the settings of the guide, beside crawlers that log in by its ACL line.
func TestTheGuidesCommandsWork(t *testing.T) {
	guide, err := os.ReadFile("../../docs/many-machines.md")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "politeness-fleet"), "./cmd/politeness-fleet")
	build.Dir = "../../redis/redislimit"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := func(args ...string) *redistest.Server {
		t.Helper()
		return redistest.New(t, args...)
	}

	// The server of the guide, with TLS, and one that Sentinels watch, with a replica.
	const secret = "SECRET"
	authority, certificate, key := newCertificate(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	secure := listener.Addr().String()
	_ = listener.Close()
	_, port, _ := net.SplitHostPort(secure)
	args := []string{
		"--requirepass", secret, "--tls-port", port, "--tls-cert-file", certificate, "--tls-key-file", key,
		"--tls-ca-cert-file", authority, "--tls-auth-clients", "no",
	}
	var blocks []string
	for _, b := range fence.FindAllStringSubmatch(string(guide), -1) {
		text := regexp.MustCompile("(?m)^"+b[1]).ReplaceAllString(b[3], "")
		if b[2] == "sh" {
			blocks = append(blocks, text)
			continue
		}
		for line := range strings.Lines(text) {
			words := strings.Fields(line)
			args = append(append(args, "--"+words[0]), words[1:]...)
		}
	}
	if len(blocks) < 10 {
		t.Fatalf("%d blocks of commands", len(blocks))
	}
	main, master := server(args...), server()
	host, port, _ := net.SplitHostPort(master.Addr)
	server("--replicaof", host, port)
	sentinels, err := redistest.RunSentinels(master, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sentinels {
		t.Cleanup(s.Close)
	}
	node := newNode(t, server)
	names := strings.NewReplacer(
		"redis.internal:6379", main.Addr, "redis.internal:6380", secure,
		"sentinel-1.internal:26379", sentinels[0].Addr, "sentinel-2.internal:26379", sentinels[1].Addr,
		"node-1.internal:6379", node, "node-2.internal:6379", node,
	)
	env := append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "REDISCLI_AUTH="+secret, "SSL_CERT_FILE="+authority)
	work := t.TempDir()
	admin := redis.NewClient(&redis.Options{Addr: main.Addr, Password: secret})
	defer admin.Close()
	for i, block := range blocks {
		if strings.Contains(block, "sentinel") {
			awaitReplica(t, sentinels[0].Addr)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", names.Replace(block))
		cmd.Env, cmd.Dir = env, work
		began := time.Now()
		out, err := cmd.CombinedOutput()
		if err != nil || refused.Match(out) {
			t.Errorf("%v\n%s\n%s", err, block, out)
		}
		t.Logf("%v\n%s%.2000s", time.Since(began), block, out)
		if i == 0 {
			crawlAsUser(t, redis.NewClient(&redis.Options{Addr: main.Addr, Username: "crawler", Password: secret}), func(pattern string, most int) {
				key := strings.Join(admin.Keys(t.Context(), pattern).Val(), "")
				if used := admin.MemoryUsage(t.Context(), key).Val(); used == 0 || int(used) > most {
					t.Errorf("%s takes %d bytes, the guide says %d", key, used, most)
				}
			})
		}
	}
	if blocked, err := os.ReadFile(filepath.Join(work, "blocked.json")); err != nil || len(blocked) > 0 {
		t.Errorf("what was blocked before the upgrade: %q, %v", blocked, err)
	}
}

// crawlAsUser uses all three parts as the user of client may, and starts requests until the test
// ends. Nothing is refused. takes holds the key of a pattern to the bytes that the guide says.
func crawlAsUser(t *testing.T, client *redis.Client, takes func(pattern string, most int)) {
	t.Helper()
	t.Cleanup(func() { _ = client.Close() })
	limiter, err := redislimit.New(redislimit.Config{
		Client: client, Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: 10 * time.Millisecond}},
		OnFailure: func(e redislimit.Event) {
			t.Log(e)
			var answer redis.Error
			if errors.As(e.Err, &answer) {
				t.Errorf("the server refuses what the crawler asks: %v", answer)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := limiter.Check(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("Check of a crawler: %q, %v", problems, err)
	}
	pages, err := redisbudget.New(redisbudget.Config{Client: client, Name: "crawl", Limits: budget.Limits{Pages: 100, PagesPerHost: 50, Bytes: 1 << 20, Duration: time.Hour, WarnAt: 0.5}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pages.Reserve(t.Context(), "example.com"); err != nil {
		t.Errorf("the budget: %v", err)
	}
	if n, _, err := pages.TakeBytes(t.Context(), 100); err != nil || n == 0 {
		t.Errorf("the budget: %d, %v", n, err)
	}
	pages.Refund(t.Context(), "example.com")
	if err := pages.Close(); err != nil {
		t.Errorf("the budget: %v", err)
	}
	robots, err := redisrobots.New(redisrobots.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	const origin = "https://example.com"
	unlock, err := robots.Lock(t.Context(), origin)
	if err != nil {
		t.Fatalf("robots.txt: %v", err)
	}
	body := "User-agent: *\n" + strings.Repeat("Disallow: /private\n", 20)
	record := robotscache.Record{Status: http.StatusOK, Body: []byte(body), Until: time.Now().Add(time.Hour)}
	if err := robots.Save(t.Context(), origin, record); err != nil {
		t.Errorf("robots.txt: %v", err)
	}
	unlock()
	if _, ok, err := robots.Load(t.Context(), origin); !ok || err != nil {
		t.Errorf("robots.txt: %t, %v", ok, err)
	}
	if s := robots.Stats(); s.Failed > 0 {
		t.Errorf("robots.txt: %+v", s)
	}
	takes("politeness:{robots:*}", len(body)*4/3+300)

	lease, err := limiter.Acquire(t.Context(), "example.com", 0)
	if err != nil {
		t.Fatal(err)
	}
	lease.Release()
	takes("politeness:{0}host:*", 400)
	takes("politeness:{0}processes", 700)

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			lease, err := limiter.Acquire(ctx, "example.com", 0)
			if err == nil {
				if _, err = lease.Start(ctx); err == nil {
					lease.Observe(hostlimit.Outcome{Status: 200})
				}
				lease.Release()
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
		_ = limiter.Close() // a busy machine may not tell the server in time
	})
}

// newNode starts a cluster of one node, and returns its address.
func newNode(t *testing.T, server func(...string) *redistest.Server) string {
	t.Helper()
	bus, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(bus.Addr().String())
	_ = bus.Close()
	s := server("--cluster-enabled", "yes", "--cluster-port", port)
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer client.Close()
	if err := client.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	await(t, "the cluster's node", func() bool { return strings.Contains(client.ClusterInfo(t.Context()).Val(), "cluster_state:ok") })
	return s.Addr
}

// awaitReplica waits until the Sentinel knows a replica that can take over.
func awaitReplica(t *testing.T, addr string) {
	t.Helper()
	client := redis.NewSentinelClient(&redis.Options{Addr: addr})
	defer client.Close()
	await(t, "a replica", func() bool {
		others, err := client.Sentinels(t.Context(), redistest.SentinelName).Result()
		replicas, err2 := client.Replicas(t.Context(), redistest.SentinelName).Result()
		return err == nil && err2 == nil && len(others) == 1 && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
	})
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// newCertificate returns the files of an authority, and of a certificate for the loopback address
// with its key: the authority is the certificate.
func newCertificate(t *testing.T) (authority, certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, certificate, key
}
