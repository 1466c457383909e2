package logtest

import (
	"bytes"
	"crypto/ed25519"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/go-politeness/politeness/evidence"
)

// Origin is the origin of the logs of Signed.
const Origin = "example.com/crawler"

// VerifierKey returns the text by which a verifier knows key at Origin.
func VerifierKey(key ed25519.PrivateKey) string {
	text, err := note.NewEd25519VerifierKey(Origin, key.Public().(ed25519.PublicKey))
	if err != nil {
		panic(err)
	}
	return text
}

// Signed returns a log of n exchanges, ten seconds each, and the checkpoints that were published.
func Signed(t *testing.T, n int, key ed25519.PrivateKey) (log []byte, checkpoints [][]byte) {
	t.Helper()
	return SignedWith(t, n, key, evidence.LogConfig{})
}

// SignedWith is Signed for a log that is not only signed but also has the rest of cfg.
func SignedWith(
	t *testing.T, n int, key ed25519.PrivateKey, cfg evidence.LogConfig,
) (log []byte, checkpoints [][]byte) {
	t.Helper()
	var published collector
	cfg.Signed = &evidence.SignConfig{Key: key, Origin: Origin, Publish: published.add}
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		log := New(t, &out, cfg)
		Visit(t, log, n)
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return out.Bytes(), published
}

// A collector keeps the checkpoints that a log publishes, in their order.
type collector [][]byte

func (c *collector) add(checkpoint []byte) { *c = append(*c, checkpoint) }

// Visit records n exchanges, ten seconds each. It is for a bubble of testing/synctest.
func Visit(t *testing.T, log evidence.Evidence, n int) {
	for i := range n {
		d := evidence.Decision{
			Type: evidence.RobotsAllowed, Time: time.Now(), Trip: uint64(i + 1), Attempt: 1, Method: "GET",
			URL: "https://example.com/", Host: "example.com", Allowed: true,
		}
		log.Record(t.Context(), d)
		d.Type = evidence.Started
		d.Start = d.Time
		d.Seq = uint64(i + 1)
		d.Slot = 1
		d.Slots = 1
		d.Delay = time.Second
		log.Record(t.Context(), d)
		time.Sleep(10 * time.Second) //nolint:forbidigo // virtual
		d.Type = evidence.Fetched
		d.Time = time.Now()
		d.Status = 200
		d.Duration = 10 * time.Second
		d.Latency = 10 * time.Second
		d.Slot = 0
		d.Slots = 0
		d.Delay = 0
		log.Record(t.Context(), d)
	}
}
