package ports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"mime/multipart"
	"net/http"
	"os"

	"github.com/go-politeness/politeness/crawl"
)

func formData() (body *bytes.Buffer, contentType string, err error) {
	body = new(bytes.Buffer)
	form := multipart.NewWriter(body)
	for name, value := range map[string]string{"firstname": "one", "lastname": "two", "email": "onetwo@example.com"} {
		err = errors.Join(err, form.WriteField(name, value))
	}
	image, readErr := os.ReadFile("gocolly.jpg")
	part, partErr := form.CreateFormFile("file", "gocolly.jpg")
	if err := errors.Join(err, readErr, partErr); err != nil {
		return nil, "", err
	}
	_, err = part.Write(image)
	return body, form.FormDataContentType(), errors.Join(err, form.Close())
}

func postMultipart() {
	_, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		Prepare: func(_ crawl.Request, req *http.Request) error {
			body, contentType, err := formData()
			if err != nil {
				return err
			}
			req.Method = http.MethodPost
			req.Body = io.NopCloser(body)
			req.Header.Set("Content-Type", contentType)
			return nil
		},
		Visit: func(_ context.Context, p *crawl.Page) error {
			fmt.Println(string(p.Body))
			return p.StatusErr()
		},
	}, "http://localhost:8080/")
	if err != nil {
		log.Fatal(err)
	}
}
