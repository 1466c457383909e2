package bundle_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"

	"golang.org/x/mod/sumdb/note"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/evidence/audit/bundle"
)

// The owner of a crawler hands what was done on one site to the owner of that site, who checks it with
// the crawler's key and nothing else from the log.
func Example() {
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) // yours comes from a file
	key, err := note.NewEd25519VerifierKey("example.com/crawler", private.Public().(ed25519.PublicKey))
	if err != nil {
		fmt.Println(err)
	}
	var file bytes.Buffer
	log, err := evidence.NewLog(&file, evidence.LogConfig{ // or OpenFile
		Signed: &evidence.SignConfig{Key: private, Origin: "example.com/crawler"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, host := range []string{"site.example", "other.example"} {
		log.Record(context.Background(), evidence.Decision{
			Type: evidence.BlockedByRobots, URL: "https://" + host + "/private", Host: host, MatchedRule: "Disallow: /private",
		})
	}
	if err := log.Close(); err != nil {
		fmt.Println(err)
	}

	var text bytes.Buffer
	trust := audit.Trust{Key: key}
	if _, err := bundle.Extract(&text, bytes.NewReader(file.Bytes()), trust, "site.example"); err != nil {
		fmt.Println(err)
	}
	b, err := bundle.Verify(&text, trust)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d records about %v are in the log, the end of the log among them, %d others are left out, signed by %s\n", b.Records, b.Hosts, b.Omitted, b.Signed.Key)
	// Output:
	// 2 records about [site.example] are in the log, the end of the log among them, 1 others are left out, signed by example.com/crawler+ae636dc0
}
