package budget_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/go-politeness/politeness/budget"
)

// A scan of at most five pages in an hour, with a warning before the end.
func Example() {
	ctx := context.Background()
	b := budget.New(budget.Limits{Pages: 5, Duration: time.Hour, WarnAt: 0.8})
	for page := 1; ; page++ {
		warnings, err := b.Reserve(ctx, "example.com")
		if errors.Is(err, budget.ErrExceeded) {
			fmt.Println(err)
			break
		}
		fmt.Println("page", page)
		for _, w := range warnings {
			fmt.Println(w)
		}
	}
	// Output:
	// page 1
	// page 2
	// page 3
	// page 4
	// budget nearly spent: pages: 4 of 5 used
	// page 5
	// budget exceeded: pages: 5 of 5 used, 1 more would be 1 over
}

// Runs one after another spend the pages of a day together. A run that ends gives back what it has
// taken and not spent.
func ExampleKeep() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "budget")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	limits := budget.Limits{Pages: 500, Every: 24 * time.Hour}
	for run := range 3 {
		b := budget.Keep(dir, limits)
		for range 200 {
			if _, err := b.Reserve(ctx, "example.com"); err != nil {
				fmt.Println("run", run+1, "-", err)
				break
			}
		}
		if err := b.GiveBack(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output: run 3 - budget exceeded: pages: 500 of 500 used, 1 more would be 1 over
}

// A host that asks for a long wait isn't waited for when the time would run out.
func ExampleMemory_Check() {
	b := budget.New(budget.Limits{Duration: time.Hour})
	err := b.Check(context.Background(), "example.com", time.Now().Add(90*time.Minute))

	var spent *budget.Error
	if errors.As(err, &spent) {
		fmt.Println("limit:", spent.Limit, "of", spent.Max, "s")
	}
	// Output: limit: time of 3600 s
}

func ExampleLimits_Validate() {
	fmt.Println(budget.Limits{Pages: -200, WarnAt: 80}.Validate())
	// Output:
	// budget: Limits.Pages is negative: -200
	// budget: Limits.WarnAt is not a share, 0 <= WarnAt < 1: 80
}
