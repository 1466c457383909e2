// A driver of the S3 client of the AWS SDK: it gets and puts objects of the servers of standard
// input, and asks for one that is disallowed.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const objects = 20

func main() {
	var all sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		server := lines.Text()
		client := s3.New(s3.Options{
			Region:       "us-east-1",
			BaseEndpoint: aws.String(server),
			UsePathStyle: true,
			Credentials:  credentials.NewStaticCredentialsProvider("id", "secret", ""),
			HTTPClient:   &http.Client{Transport: politely()}, // the one line
		})
		for i := range objects {
			all.Add(1)
			go func() {
				defer all.Done()
				get(client, "bucket", fmt.Sprint(i))
			}()
		}
		all.Add(1)
		go func() {
			defer all.Done()
			_, err := client.PutObject(context.Background(), &s3.PutObjectInput{
				Bucket: aws.String("bucket"), Key: aws.String("new"), Body: strings.NewReader("object"),
			})
			fmt.Println("put:", err)
			began := time.Now()
			get(client, "private", "key")
			fmt.Println("refused after", time.Since(began).Round(100*time.Millisecond))
		}()
	}
	all.Wait()
}

func get(client *s3.Client, bucket, key string) {
	out, err := client.GetObject(context.Background(), &s3.GetObjectInput{Bucket: aws.String(bucket), Key: aws.String(key)})
	if err != nil {
		fmt.Println(bucket, key, err)
		return
	}
	defer out.Body.Close()
	_, err = io.Copy(io.Discard, out.Body)
	fmt.Println(bucket, key, err)
}
