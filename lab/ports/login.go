package ports

import (
	"context"
	"log"
	"net/http"
	"net/http/cookiejar"
	"net/url"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
)

func login() {
	transport, err := politeness.New(politeness.Config{UserAgent: agent})
	if err != nil {
		log.Fatal(err)
	}
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Transport: transport, Jar: jar}
	resp, err := client.PostForm("http://example.com/login", url.Values{"username": {"admin"}, "password": {"admin"}})
	if err != nil {
		log.Fatal(err)
	}
	resp.Body.Close()
	_, err = crawl.Run(context.Background(), crawl.Config{
		Transport: transport,
		Client:    client,
		Visit: func(_ context.Context, p *crawl.Page) error {
			log.Println("response received", p.Response.StatusCode)
			return nil
		},
	}, "http://example.com/")
	if err != nil {
		log.Fatal(err)
	}
}
