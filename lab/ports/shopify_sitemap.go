package ports

import (
	"context"
	"fmt"
	"log"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl/sitemap"
)

func shopifySitemap() {
	transport, err := politeness.New(politeness.Config{UserAgent: agent})
	if err != nil {
		log.Fatal(err)
	}
	finder := sitemap.Finder{Transport: transport}
	n := 0
	for entry, err := range finder.Pages(context.Background(), "https://www.shopify.com/") {
		if err != nil {
			log.Println(err)
			continue
		}
		n++
		fmt.Println("\t", entry.Loc)
	}
	fmt.Println("Collected", n, "URLs")
}
