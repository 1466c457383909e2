package bundle_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/evidence/audit/bundle"
	"github.com/go-politeness/politeness/internal/logtest"
)

const testOrigin = logtest.Origin

var (
	testKey  = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	otherKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
	trusted  = audit.Trust{Key: logtest.VerifierKey(testKey)}
)

var runs atomic.Int64

// signedCrawl returns a signed log of a crawl of several hosts, with the checkpoints published. Each
// is that of another process, and a day later than the one before.
func signedCrawl(t testing.TB, hosts, pages int, more ...evidence.Decision) (log []byte, checkpoints [][]byte) {
	t.Helper()
	var out bytes.Buffer
	tt, virtual := t.(*testing.T)
	record := func() {
		log := logtest.New(t, &out, evidence.LogConfig{Signed: &evidence.SignConfig{
			Key:     testKey,
			Origin:  testOrigin,
			Publish: func(c []byte) { checkpoints = append(checkpoints, c) },
		}})
		for i, d := range slices.Concat(logtest.Again(logtest.Crawl(hosts, pages), int(runs.Add(1))), more) {
			log.Record(t.Context(), d)
			if i%10 == 0 && virtual {
				time.Sleep(10 * time.Second)
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if virtual {
		synctest.Test(tt, func(*testing.T) { record() })
	} else {
		record()
	}
	return out.Bytes(), checkpoints
}

func mustExtract(t testing.TB, trust audit.Trust, log []byte, hosts ...string) (text []byte, e bundle.Extracted) {
	t.Helper()
	var out bytes.Buffer
	e, err := bundle.Extract(&out, bytes.NewReader(log), trust, hosts...)
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), e
}

// verifyByHand verifies a bundle as docs/proof-reference.md tells a stranger to, with the tree hash of RFC
// 6962, section 2.1, and no code of ours. It returns the records.
func verifyByHand(t *testing.T, text []byte) (records []string, size int) {
	t.Helper()
	type span struct{ from, to int }
	known := map[span][]byte{}
	at := 0
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		var v struct {
			Type, Checkpoint string
			Omitted          int
			Hashes           []string
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		switch {
		case i == 0:
		case v.Type != "":
			sum := sha256.Sum256([]byte("\x00" + line))
			known[span{at, at + 1}] = sum[:]
			records = append(records, line)
			at++
		case v.Omitted > 0:
			end := at + v.Omitted
			for _, h := range v.Hashes {
				n := 1 // leaves under h: as many as fit, in a subtree that may begin at this leaf
				for at%(2*n) == 0 && at+2*n <= end {
					n *= 2
				}
				known[span{at, at + n}], _ = base64.StdEncoding.DecodeString(h)
				at += n
			}
			if at != end {
				t.Fatalf("line %d tells of %d leaves too few", i+1, end-at)
			}
		default:
			n, hash := checkNoteByHand(t, v.Checkpoint)
			var tree func(from, to int) []byte
			tree = func(from, to int) []byte {
				if h, ok := known[span{from, to}]; ok {
					return h
				}
				if to-from < 2 {
					t.Fatalf("leaf %d is missing", from)
				}
				k := 1
				for k*2 < to-from {
					k *= 2
				}
				sum := sha256.Sum256(slices.Concat([]byte{1}, tree(from, from+k), tree(from+k, to)))
				return sum[:]
			}
			if n != at || !bytes.Equal(tree(0, n), hash) {
				t.Fatalf("a checkpoint of %d leaves, %x; here are %d", n, hash, at)
			}
			size, at = size+n, 0
			clear(known)
		}
	}
	return records, size
}

// checkNoteByHand checks that a note is a checkpoint, and returns what it says.
func checkNoteByHand(t *testing.T, signed string) (size int, root []byte) {
	t.Helper()
	lines := strings.Split(signed, "\n")
	if len(lines) != 6 || lines[0] != testOrigin || lines[3] != "" || lines[5] != "" {
		t.Fatalf("not a checkpoint: %q", signed)
	}
	size, err := strconv.Atoi(lines[1])
	if err != nil {
		t.Fatal(err)
	}
	root, err = base64.StdEncoding.DecodeString(lines[2])
	if err != nil {
		t.Fatal(err)
	}
	return size, root
}

func TestBundleHoldsTheRecordsOfOneSiteOnly(t *testing.T) {
	log, checkpoints := signedCrawl(t, 20, 20)
	text, e := mustExtract(t, trusted, log, "h3.example")
	b, err := bundle.Verify(bytes.NewReader(text), trusted)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	total := 0
	for line := range strings.Lines(string(log)) {
		total++
		if strings.Contains(line, `"host":"h3.example"`) || strings.Contains(line, `{"type":"policy"`) || strings.Contains(line, `{"type":"log_closed"`) {
			want = append(want, strings.TrimSuffix(line, "\n"))
		}
	}
	records, size := verifyByHand(t, text)
	if !slices.Equal(records, want) {
		t.Errorf("%d records, want %d", len(records), len(want))
	}
	if size != total-1 { // the last checkpoint isn't in its own tree
		t.Errorf("a tree of %d lines, of %d", size, total)
	}
	if b.Records != len(want) || e.Records != len(want) || int(b.Omitted) != size-len(want) || e.Omitted != size-len(want) || e.Withheld != 0 || e.After != 0 {
		t.Errorf("%+v, %+v", b, e)
	}
	if b.Signed.Key == "" || b.Signed.Latest != string(checkpoints[len(checkpoints)-1]) {
		t.Errorf("%+v", b.Signed)
	}
	if !b.Report.OK() || len(b.Report.Hosts) != 1 || b.Report.Hosts[0].Host != "h3.example" || b.Report.Promise("delays kept").Proved == 0 {
		t.Errorf("%v", b.Report)
	}
	for i := range 20 {
		name := fmt.Sprintf("h%d.example", i)
		if n := bytes.Count(text, []byte(name)); (n > 0) != (i == 3) {
			t.Errorf("%s stands %d times in the bundle", name, n)
		}
	}
	if len(text) > len(log)/8 {
		t.Errorf("a bundle of %d bytes from a log of %d", len(text), len(log))
	}
	if s := b.String(); !strings.Contains(s, "signed by "+b.Signed.Key+";") || strings.Contains(s, "extends") {
		t.Error(s)
	}
	if b, err := bundle.Verify(bytes.NewReader(text), audit.Trust{}); err != nil || !strings.Contains(b.String(), "signed with an unknown key: ") {
		t.Errorf("without a key: %v, %v", b, err)
	}
}

// TestBundleEndsWithTheLastCheckpoint: records after it are counted only.
func TestBundleEndsWithTheLastCheckpoint(t *testing.T) {
	log, _ := signedCrawl(t, 5, 100)
	const checkpoint = `{"type":"checkpoint"`
	log = log[:bytes.LastIndex(log, []byte(checkpoint))]
	after := bytes.LastIndex(log, []byte(checkpoint))
	if after < 0 {
		t.Fatal("the log has one checkpoint only")
	}
	want := 0
	for line := range strings.Lines(string(log[after:])) {
		if strings.Contains(line, `"host":"h2.example"`) || strings.Contains(line, `{"type":"log_closed"`) {
			want++
		}
	}
	if text, e := mustExtract(t, trusted, log, "h2.example"); e.After != want || want == 0 || !strings.HasPrefix(string(text[bytes.LastIndex(text, []byte("\n{")):]), "\n{\"checkpoint\":") {
		t.Errorf("%+v, want %d records after the last checkpoint", e, want)
	}
}

// TestBundleNamesNoOtherHost looks for every way by which a name could get in.
func TestBundleNamesNoOtherHost(t *testing.T) {
	visit := func(seq uint64, u, host string, change func(*evidence.Decision)) (out []evidence.Decision) {
		at := logtest.Day.Add(time.Duration(seq) * time.Minute)
		for _, typ := range []evidence.Type{evidence.RobotsAllowed, evidence.Started, evidence.Fetched} {
			d := evidence.Decision{Type: typ, Time: at, Start: at, Trip: seq, Attempt: 1, Seq: seq, URL: u, Host: host, Allowed: true}
			if typ == evidence.Fetched && change != nil {
				change(&d)
			}
			out = append(out, d)
		}
		return out
	}
	more := slices.Concat(
		visit(1, "https://www.site.test/", "www.site.test", nil),
		visit(2, "https://www.site.test/b", "www.site.test", func(d *evidence.Decision) { d.Location = "https://secret.test/x" }),
		visit(3, "https://www.site.test/c", "www.site.test", func(d *evidence.Decision) { d.Location = "//unvisited.test/x" }),
		visit(4, "https://www.site.test/d", "www.site.test", func(d *evidence.Decision) { d.Location = "https://site.test/x" }),
		visit(5, "https://www.site.test/e?next=https%253A%252F%252Fsecret.test%252F", "www.site.test", nil),
		visit(6, "https://www.site.test/f", "www.site.test", func(d *evidence.Decision) { d.Err = "dial:\tSECRET.test\nrefused" }),
		visit(7, "https://www.site.test/g", "www.site.test", func(d *evidence.Decision) { d.ETag = "api.secret.test:80" }),
		visit(8, "http://xn--bcher-kva.test/", "xn--bcher-kva.test", nil),
		visit(9, "https://www.site.test/h", "www.site.test", func(d *evidence.Decision) { d.Reason = "see bücher.test" }),
		visit(10, "https://secret.test/", "secret.test", func(d *evidence.Decision) { d.Location = "https://www.site.test/" }),
		visit(11, "https://site.test/", "site.test", nil),
		visit(12, "https://a.site.test/", "site.test", nil),
		visit(13, "https://notsite.test/", "notsite.test", nil),
		visit(14, "https://www.site.test./i", "www.site.test", nil),
		visit(15, "https://[2001:db8::1]:8080/", "[2001:db8::1]:8080", nil),
		visit(16, "https://www.site.test/j?to=http%3A%2F%2Fsecret.test&rate=5%zz", "www.site.test", nil),
		visit(17, "https://www.site.test/k", "www.site.test", func(d *evidence.Decision) { d.Err = "dial \x7fsecret.test\x7f" }),
		visit(18, "https://az09.test/", "az09.test", nil),
		visit(19, "https://www.site.test/l", "www.site.test", func(d *evidence.Decision) { d.Err = "no response of az09.test" }),
		visit(20, "https://www.site.test/m", "www.site.test", func(d *evidence.Decision) { d.Err = "见az09.test。" }),
		visit(21, "https://www.site.test/n", "www.site.test", func(d *evidence.Decision) { d.Reason = "„bücher.test“" }),
		visit(22, "https://www.site.test/o", "www.site.test", func(d *evidence.Decision) { d.Err = "dial tcp [2001:db8::1]:8080: refused" }),
		visit(23, "https://www.site.test/p", "www.site.test", func(d *evidence.Decision) { d.Err = "lookup 2001:DB8:0::1: no such host" }),
	)
	log, _ := signedCrawl(t, 1, 1, more...)
	secret := regexp.MustCompile(`(?i)secret\.test|az09\.test|notsite\.test|unvisited\.test|b(ü|xn--bcher-kva)cher\.test|h0\.example|2001:db8`)
	for _, c := range []struct {
		hosts    []string
		withheld int
		absent   string
		records  int
	}{
		{[]string{"site.test"}, 17, "", 2 + 3*18 - 17},
		{[]string{"www.site.test"}, 18, `\b[^w.]*\.?site\.test`, 2 + 3*16 - 18},
		{[]string{"WWW.Site.Test."}, 18, "", 2 + 3*16 - 18},
		{[]string{"site.test", "secret.test"}, 7, "", 2 + 3*19 - 7},
		{[]string{"[2001:DB8::1]:8080"}, 0, "site", 2 + 3},
		{[]string{"nobody.test"}, 0, "site", 2},
	} {
		text, e := mustExtract(t, trusted, log, c.hosts...)
		if e.Withheld != c.withheld || e.Records != c.records {
			t.Errorf("%v: %+v, want %d and %d withheld", c.hosts, e, c.records, c.withheld)
		}
		records, _ := verifyByHand(t, text)
		all := strings.Join(records, "\n")
		if found := secret.FindString(all); found != "" && len(c.hosts) == 1 && !strings.Contains(c.hosts[0], ":") {
			t.Errorf("%v: the bundle names %s", c.hosts, found)
		}
		if c.absent == "site" && strings.Contains(all, "site.test") {
			t.Errorf("%v: %s", c.hosts, all)
		}
		if _, err := bundle.Verify(bytes.NewReader(text), trusted); err != nil {
			t.Errorf("%v: %v", c.hosts, err)
		}
	}
}

func TestBundleShowsOmissions(t *testing.T) {
	log, _ := signedCrawl(t, 5, 30)
	text, _ := mustExtract(t, trusted, log, "h2.example")
	// The owner of the log leaves out whatever tells of one start, and takes the hashes instead.
	lines := strings.SplitAfter(string(log), "\n")
	var hidden []string
	for _, line := range lines {
		if strings.Contains(line, `"host":"h2.example"`) && strings.Contains(line, `"seq":7,`) {
			hidden = append(hidden, line)
		}
	}
	if len(hidden) == 0 {
		t.Fatal("nothing to hide")
	}
	forged := string(text)
	for _, line := range hidden {
		sum := sha256.Sum256([]byte("\x00" + strings.TrimSuffix(line, "\n")))
		forged = strings.Replace(forged, line, fmt.Sprintf("{\"omitted\":1,\"hashes\":[%q]}\n", base64.StdEncoding.EncodeToString(sum[:])), 1)
	}
	b, err := bundle.Verify(strings.NewReader(forged), trusted)
	if err != nil {
		t.Fatal(err)
	}
	if b.Report.Broken[audit.MissingStart] == 0 {
		t.Errorf("the omission doesn't show:\n%v", b.Report)
	}
}

func TestForgedBundles(t *testing.T) {
	log, checkpoints := signedCrawl(t, 5, 30)
	text, _ := mustExtract(t, trusted, log, "h2.example")
	lines := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	other, _ := signedCrawl(t, 5, 31)
	_, later := logtest.Signed(t, 1000, testKey)
	record := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, `{"type":"fetched"`) })
	omitted := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, `{"omitted":`) && len(l) > 120 })
	isTheirs := "aren't in the log"
	for name, c := range map[string]struct {
		forge func(l []string) []string
		trust audit.Trust
		want  string
	}{
		"a record changed":  {forge: func(l []string) []string { l[record] = strings.Replace(l[record], `200`, `429`, 1); return l }, want: isTheirs},
		"a record removed":  {forge: func(l []string) []string { return slices.Delete(l, record, record+1) }, want: "don't fit"},
		"a record twice":    {forge: func(l []string) []string { return slices.Insert(l, record, l[record]) }, want: "don't fit"},
		"records reordered": {forge: func(l []string) []string { l[1], l[record] = l[record], l[1]; return l }, want: isTheirs},
		"hashes removed":    {forge: func(l []string) []string { l[omitted] = `{"omitted":3}` + "\n"; return l }, want: "don't fit"},
		"too many hashes": {forge: func(l []string) []string {
			l[omitted] = strings.Replace(l[omitted], `{"omitted":`, `{"omitted":1`, 1)
			return l
		}, want: ""},
		"a huge omission": {forge: func(l []string) []string {
			l[omitted] = `{"omitted":18446744073709551615,"hashes":[]}` + "\n"
			return l
		}, want: "don't fit"},
		"the end cut off": {forge: func(l []string) []string { return l[:len(l)-1] }, want: "cut off"},
		"the beginning":   {forge: func(l []string) []string { return l[1:] }, want: "line 1: not"},
		"empty":           {forge: func([]string) []string { return nil }, want: "it is empty"},
		"the header only": {forge: func(l []string) []string { return l[:1] }, want: "cut off"},
		"another version": {forge: func(l []string) []string { l[0] = `{"bundle":2}` + "\n"; return l }, want: "version 2"},
		"a record that no tree has": {forge: func(l []string) []string {
			l[0] = strings.Replace(l[0], "{", strings.TrimSuffix(l[record], "}\n")+",", 1)
			return l
		}, want: "not a bundle"},
		"a record that is no leaf, by a name in another case": {forge: func(l []string) []string {
			l[omitted] = `{"type":"fetched","url":"https://h2.example/","host":"h2.example","Type":"",` + l[omitted][1:]
			return l
		}, want: "don't fit"},
		"an empty line": {forge: func(l []string) []string { l[record] = "{}\n"; return l }, want: "neither"},
		"nonsense":      {forge: func(l []string) []string { l[record] = "nonsense\n"; return l }, want: "neither"},
		"no version":    {forge: func(l []string) []string { l[0] = `{"hosts":["h2.example"]}` + "\n"; return l }, want: "not a bundle"},
		"no host": {forge: func(l []string) []string {
			l[0] = `{"bundle":1,"hosts":[]}` + "\n"
			return l
		}, want: "line 2: not a bundle"},
		"a log":         {forge: func([]string) []string { return []string{string(log)} }, want: "not a bundle"},
		"another's key": {trust: audit.Trust{Key: logtest.VerifierKey(otherKey)}, want: "signed with another key"},
		"of another log": {forge: func(l []string) []string {
			b, _ := mustExtract(t, trusted, other, "h2.example")
			l[len(l)-1] = string(b[bytes.LastIndex(b, []byte("{")):])
			return l
		}, want: isTheirs},
		"an earlier log":     {trust: audit.Trust{Checkpoints: later[len(later)-1:]}, want: "cut off"},
		"not an extension":   {trust: audit.Trust{Checkpoints: checkpoints[1:2]}, want: "cut off"}, // it wasn't extracted with it
		"honest, no key":     {trust: audit.Trust{}},
		"honest, with a key": {trust: trusted},
	} {
		l := slices.Clone(lines)
		if c.forge != nil {
			l = c.forge(l)
		}
		if c.trust.Key == "" && name != "honest, no key" {
			c.trust.Key = trusted.Key
		}
		b, err := bundle.Verify(strings.NewReader(strings.Join(l, "")), c.trust)
		switch {
		case strings.HasPrefix(name, "honest"):
			if err != nil || (b.Signed.Key != "") != (c.trust.Key != "") {
				t.Errorf("%s: %+v, %v", name, b, err)
			}
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestOnlyLeavesOfABundleAreJudged: what else its lines may say, the report doesn't know.
func TestOnlyLeavesOfABundleAreJudged(t *testing.T) {
	log, _ := signedCrawl(t, 5, 30, evidence.Decision{URL: "https://h2.example/", Host: "h2.example", Allowed: true}) // of no type
	text, _ := mustExtract(t, trusted, log, "h2.example")
	honest, err := bundle.Verify(bytes.NewReader(text), trusted)
	if err != nil || !honest.Report.OK() {
		t.Fatalf("%v, %v", honest, err)
	}
	for i, line := range strings.SplitAfter(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, `{"type":`) {
			continue
		}
		for _, more := range []string{
			`{"url":"https://h2.example/never","host":"h2.example",`, `{"Type":"policy",`, `{"TYPE":"started","url":"https://h2.example/never","host":"h2.example","n":1,`,
		} {
			forged := strings.SplitAfter(string(text), "\n")
			forged[i] = more + line[1:]
			b, err := bundle.Verify(strings.NewReader(strings.Join(forged, "")), trusted)
			if err == nil && !reflect.DeepEqual(b, honest) {
				t.Errorf("line %d, %s:\n%v\nwithout it\n%v", i+1, forged[i], b, honest)
			}
		}
	}
}

func TestBundleExtendsOlderCheckpoints(t *testing.T) {
	log, checkpoints := signedCrawl(t, 5, 100)
	trust := audit.Trust{Key: trusted.Key, Checkpoints: checkpoints[:len(checkpoints)-1]}
	text, _ := mustExtract(t, trust, log, "h2.example")
	for i := range checkpoints {
		b, err := bundle.Verify(bytes.NewReader(text), audit.Trust{Key: trusted.Key, Checkpoints: checkpoints[i : i+1]})
		if err != nil || b.Signed.Older != 1 || !strings.Contains(b.String(), "\nthe log extends 1 older checkpoint\n") {
			t.Errorf("checkpoint %d: %v, %v", i, b, err)
		}
	}
	alone, _ := mustExtract(t, trusted, log, "h2.example")
	omissions := func(text []byte) int { return bytes.Count(text, []byte(`{"omitted":`)) }
	if n, most := omissions(text), omissions(alone)+len(checkpoints); n > most {
		t.Errorf("%d runs of hashes, want %d at most: each older checkpoint ends one", n, most)
	}
	verifyByHand(t, text)
	_, others := signedCrawl(t, 5, 100)
	if _, err := bundle.Verify(bytes.NewReader(text), audit.Trust{Key: trusted.Key, Checkpoints: others[2:3]}); err == nil || !strings.Contains(err.Error(), "rewritten") {
		t.Errorf("a checkpoint of another log: %v", err)
	}
}

// TestBundleOfSeveralTrees extracts from logs put one after the other, in each way, with random hosts.
func TestBundleOfSeveralTrees(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		var logs []byte
		n := 1 + rnd.IntN(3)
		for range n {
			log, _ := signedCrawl(t, 1+rnd.IntN(6), 1+rnd.IntN(20))
			logs = append(logs, log...)
		}
		text, e := mustExtract(t, trusted, logs, "h0.example")
		b, err := bundle.Verify(bytes.NewReader(text), trusted)
		if err != nil || b.Signed.Checkpoints != n || b.Records != e.Records || b.Report.Logs != n || !b.Report.OK() {
			t.Fatalf("%d logs: %v, %v", n, b, err)
		}
		if records, _ := verifyByHand(t, text); len(records) != e.Records {
			t.Errorf("%d records by hand, %d", len(records), e.Records)
		}
	}
}

// TestALogBehindHalfALineIsExtracted: Check reads one, too.
func TestALogBehindHalfALineIsExtracted(t *testing.T) {
	a, _ := signedCrawl(t, 2, 10)
	b, _ := signedCrawl(t, 2, 10)
	killed := slices.Concat(a[:len(a)-40], b)
	r, err := trusted.Check(bytes.NewReader(killed))
	if err != nil || !r.OK() {
		t.Fatalf("%v, %v", r, err)
	}
	text, e := mustExtract(t, trusted, killed, "h1.example")
	bundled, err := bundle.Verify(bytes.NewReader(text), trusted)
	if err != nil || bundled.Records != e.Records || !bundled.Report.OK() || bundled.Report.Logs != 2 {
		t.Fatalf("%v, %v", bundled, err)
	}
	if records, _ := verifyByHand(t, text); len(records) != e.Records {
		t.Errorf("%d records by hand, %d", len(records), e.Records)
	}
	if r, err := audit.CheckSite(bytes.NewReader(killed), "h1.example"); err != nil || len(r.Promised) == 0 || !r.OK() {
		t.Errorf("%v, %v", r, err)
	}
}

func TestExtractRefuses(t *testing.T) {
	log, _ := signedCrawl(t, 2, 10)
	unsigned := logtest.Write(t, logtest.Crawl(2, 10))
	changed := bytes.Replace(log, []byte("h1.example/"), []byte("h1.example?"), 1)
	for want, c := range map[string]struct {
		log   io.ReadSeeker
		trust audit.Trust
		hosts []string
	}{
		"no host":                   {log: bytes.NewReader(log)},
		`"https://h1.example/" i`:   {log: bytes.NewReader(log), hosts: []string{"https://h1.example/"}},
		`"" isn't a host`:           {log: bytes.NewReader(log), hosts: []string{""}},
		"evidence.LogConfig.Signed": {log: bytes.NewReader(unsigned), hosts: []string{"h1.example"}},
		"that were signed":          {log: bytes.NewReader(changed), hosts: []string{"h1.example"}},
		"another key":               {log: bytes.NewReader(log), trust: audit.Trust{Key: logtest.VerifierKey(otherKey)}, hosts: []string{"h1.example"}},
		"a bad disk":                {log: badSeeker{bytes.NewReader(log)}, hosts: []string{"h1.example"}},
	} {
		var out bytes.Buffer
		if _, err := bundle.Extract(&out, c.log, c.trust, c.hosts...); err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := bundle.Extract(badWriter{}, bytes.NewReader(log), audit.Trust{}, "h1.example"); err == nil {
		t.Error("a full disk is no error")
	}
	if _, err := bundle.Verify(iotest.ErrReader(errors.New("a bad disk")), trusted); err == nil || !strings.Contains(err.Error(), "a bad disk") {
		t.Errorf("Verify: %v", err)
	}
}

type badWriter struct{}

func (badWriter) Write([]byte) (int, error) { return 0, errors.New("a full disk") }

type badSeeker struct{ io.Reader }

func (badSeeker) Seek(int64, int) (int64, error) { return 0, errors.New("a bad disk") }

func FuzzBundle(f *testing.F) {
	log, checkpoints := signedCrawl(f, 2, 5)
	text, _ := mustExtract(f, audit.Trust{}, log, "h1.example")
	f.Add(text)
	f.Add([]byte(`{"bundle":1}` + "\n" + `{"omitted":3,"hashes":["AA=="]}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, trust := range []audit.Trust{{}, trusted, {Checkpoints: checkpoints}} {
			b, err := bundle.Verify(bytes.NewReader(text), trust)
			if err == nil && (b == nil || b.Report == nil || b.Signed.Checkpoints == 0) {
				t.Errorf("%+v without an error", b)
			}
		}
	})
}

// TestARightBundleIsProved: who has the crawler's key has nothing left to ask, though the bundle
// leaves the other hosts out.
func TestARightBundleIsProved(t *testing.T) {
	log, _ := signedCrawl(t, 4, 20)
	text, e := mustExtract(t, trusted, log, "h2.example")
	if e.Omitted == 0 {
		t.Fatal("the log is of one host alone")
	}
	known, err := bundle.Verify(bytes.NewReader(text), trusted)
	if err != nil || !known.Report.Complete() {
		t.Errorf("with the key: %v\n%v", err, known)
	}
	if got := known.Report.Promise("log whole").Proved; got != e.Records {
		t.Errorf("%d records stand in the log, want %d", got, e.Records)
	}
	stranger, err := bundle.Verify(bytes.NewReader(text), audit.Trust{})
	if err != nil || stranger.Report.Complete() || !stranger.Report.OK() {
		t.Errorf("without a key: %v\n%v", err, stranger)
	}
}

// TestBundleOfOnePort: hosts with one name and several ports are told apart by their ports.
func TestBundleOfOnePort(t *testing.T) {
	visit := func(seq uint64, u, host, location string) (out []evidence.Decision) {
		for _, typ := range []evidence.Type{evidence.RobotsAllowed, evidence.Started, evidence.Fetched} {
			at := logtest.Day.Add(time.Duration(seq) * time.Minute)
			d := evidence.Decision{Type: typ, Time: at, Start: at, Trip: seq, Attempt: 1, Seq: seq, URL: u, Host: host, Allowed: true}
			if typ == evidence.Fetched {
				d.Location = location
			}
			out = append(out, d)
		}
		return out
	}
	for _, c := range []struct{ site, other string }{
		{"127.0.0.1:9001", "127.0.0.1:9002"},
		{"127.0.0.1:900", "127.0.0.1:9001"}, // whose port begins like the other one
		{"127.0.0.1", "127.0.0.1:9001"},     // at the port of http
		{"127.0.0.1:9001", "127.0.0.1"},
		{"[2001:db8::1]:9001", "[2001:db8::1]:9002"},
		{"name.test:9001", "name.test:9002"},
	} {
		log, _ := signedCrawl(t, 1, 1, slices.Concat(
			visit(1, "http://"+c.site+"/", c.site, ""),
			visit(2, "http://"+c.other+"/", c.other, ""),
			visit(3, "http://"+c.site+"/on", c.site, "http://"+c.other+"/"),
			visit(4, "http://"+c.site+"/back", c.site, "http://"+c.site+"/"),
		)...)
		text, e := mustExtract(t, trusted, log, c.site)
		withheld, records := 1, 2+3*3-1
		if !strings.Contains(strings.TrimPrefix(c.site, "[2001:db8::1]"), ":") {
			withheld, records = 0, 2+3*4 // a site without a port has every port
		}
		if e.Withheld != withheld || e.Records != records {
			t.Errorf("%s beside %s: %+v, want %d records, %d withheld", c.site, c.other, e, records, withheld)
		}
		if strings.Contains(string(text), c.other+"/") && withheld > 0 {
			t.Errorf("the bundle of %s names %s", c.site, c.other)
		}
	}
}
