package botauth_test

import (
	"crypto/ed25519"
	"fmt"
	"net/http"
	"os"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/botauth"
)

// A crawler that signs its requests, at a site behind Cloudflare too.
func Example() {
	pem, err := os.ReadFile("testdata/key.pem") // openssl genpkey -algorithm ed25519 -out key.pem
	if err != nil {
		panic(err)
	}
	key, err := botauth.ParseKey(pem)
	if err != nil {
		panic(err)
	}
	signer, err := botauth.New(botauth.Config{Key: key, Agent: "https://bot.example.com", Profile: botauth.Cloudflare})
	if err != nil {
		panic(err)
	}
	transport, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://bot.example.com; bot@example.com)",
		Base:      signer.Transport(http.DefaultTransport),
	})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: transport} // fetch with this one
	_ = client
	fmt.Println(signer.KeyID())
	// Output: poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U
}

// The directory is served at the agent's own origin. While keys change it has both.
func ExampleDirectory() {
	_, key, _ := ed25519.GenerateKey(nil)
	_, next, _ := ed25519.GenerateKey(nil)
	old, err := botauth.New(botauth.Config{Key: key, Agent: "https://bot.example.com"})
	if err != nil {
		panic(err)
	}
	successor, err := botauth.New(botauth.Config{Key: next, Agent: "https://bot.example.com"})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle(botauth.DirectoryPath, botauth.Directory(old, successor))
	fmt.Println(botauth.DirectoryPath)
	// Output: /.well-known/http-message-signatures-directory
}
