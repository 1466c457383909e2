package audit_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
)

// A log is kept during a crawl and proved afterwards. Here the second request
// came half a second after the first, though a second was the delay in force.
func Example() {
	var file bytes.Buffer // an *os.File
	log := evidence.JSONLines(&file)

	// A Transport with Config.Evidence: log does this.
	ctx, at := context.Background(), time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for i, url := range []string{"https://example.com/", "https://example.com/about"} {
		d := evidence.Decision{Trip: uint64(i + 1), Attempt: 1, URL: url, Host: "example.com", Allowed: true}
		d.Type, d.Time = evidence.RobotsAllowed, at
		log.Record(ctx, d)
		d.Type, d.Start, d.Seq, d.Slots, d.Delay = evidence.Started, at, uint64(i+1), 2, time.Second
		log.Record(ctx, d)
		d.Type, d.Time, d.Duration, d.Status = evidence.Fetched, at.Add(100*time.Millisecond), 100*time.Millisecond, 200
		log.Record(ctx, d)
		at = at.Add(500 * time.Millisecond)
	}
	if err := log.Close(); err != nil {
		fmt.Println(err)
	}

	report, err := audit.Check(&file)
	if err != nil {
		fmt.Println(err)
	}
	for _, v := range report.Violations {
		fmt.Println(v)
	}
	// Output:
	// lines 2 and 5: gap: example.com: 500ms between two starts, delay in force 1s
}

// The owner of a crawler hands what was done on one site to the owner of that site, who checks it with
// the crawler's key and nothing else from the log.
func ExampleTrust_Verify() {
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) // yours comes from a file
	key, err := note.NewEd25519VerifierKey("example.com/crawler", private.Public().(ed25519.PublicKey))
	if err != nil {
		fmt.Println(err)
	}
	var file bytes.Buffer
	log := evidence.JSONLines(&file, evidence.Signed(private, "example.com/crawler", nil)) // or OpenFile
	for _, host := range []string{"site.example", "other.example"} {
		log.Record(context.Background(), evidence.Decision{
			Type: evidence.BlockedByRobots, URL: "https://" + host + "/private", Host: host, MatchedRule: "Disallow: /private",
		})
	}
	if err := log.Close(); err != nil {
		fmt.Println(err)
	}

	var bundle bytes.Buffer
	if _, err := audit.Extract(&bundle, bytes.NewReader(file.Bytes()), "site.example"); err != nil {
		fmt.Println(err)
	}
	b, err := audit.Trust{Key: key}.Verify(&bundle)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d records about %v are in the log, the end of the log among them, %d others are left out, signed by %s\n", b.Records, b.Hosts, b.Omitted, b.Signed.Key)
	// Output:
	// 2 records about [site.example] are in the log, the end of the log among them, 1 others are left out, signed by example.com/crawler+ae636dc0
}
