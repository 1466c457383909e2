package main

import (
	"fmt"

	"github.com/go-politeness/politeness/internal/robotsgen"
	"github.com/go-politeness/politeness/lab/benchmarks/internal/plot"
	"github.com/go-politeness/politeness/lab/benchmarks/robots"
)

func robotsSection() section {
	s := section{name: "robots", title: "robots.txt: parse and match", run: runRobots}
	for _, r := range robots.Rivals {
		s.rivals = append(s.rivals, r.Name)
	}
	return s
}

const (
	wantCheck = 7_000.0 // ns of a question, at most
	wantParse = 1.0     // times as fast as temoto
)

func runRobots(b *bench) (result, error) {
	r := resultOf("robots")
	check := table{caption: "Time of one question:", header: []string{"by"}}
	parse := table{caption: "Time of parsing, and compiling the rules of one crawler:", header: []string{"by"}}
	goals := newGoals("of politeness")
	checks := plot.Bars{
		Title:    "Time of one robots.txt question",
		Subtitle: "by file; politeness in blue",
		Format:   duration,
		Log:      true,
	}
	for _, who := range robots.Rivals {
		check.add(who.Name)
		if who.Keeps {
			parse.add(who.Name)
		} else {
			parse.add(who.Name, "keeps nothing")
		}
	}
	for _, shape := range robotsgen.Shapes {
		check.header = append(check.header, shape.Name)
		parse.header = append(parse.header, shape.Name)
		asking, parsing, err := robotsOps(robotsgen.File(shape))
		if err != nil {
			return r, err
		}
		asked, err := b.interleave(asking)
		if err != nil {
			return r, err
		}
		parsed, err := b.interleave(parsing)
		if err != nil {
			return r, err
		}
		b.raw("Check", shape.Name, asked)
		b.raw("Parse", shape.Name, parsed)
		checks.Groups = append(checks.Groups, groupOf(shape.Name, asked))
		for _, s := range asked {
			check.extend(s.by, duration(s.median()))
		}
		for _, s := range parsed {
			parse.extend(s.by, duration(s.median()))
		}
		goals.atMost(
			"a question, "+shape.Name, asked[0].median(), wantCheck, duration,
			"a request over HTTP takes 70 µs of a processor; "+
				"a question to robots.txt is to be lost in it, whatever the file")
		goals.atLeast(
			"parsing, "+shape.Name+", temoto's time", parsed[1].times(parsed[0]), wantParse, times,
			"who comes from temoto pays no more")
		goals.none(
			"allocations of a question, "+shape.Name, int(asked[0].allocs+0.5),
			"each URL of a frontier is asked about")
	}
	r.tables = []table{check, parse, goals.table}
	r.plots = []figure{{"robots", "Bars: time of one robots.txt question, by file and package", checks}}
	return r, nil
}

// robotsOps returns what each rival does with a file: to be asked, and to parse it.
func robotsOps(body []byte) (asking, parsing []op, err error) {
	for _, who := range robots.Rivals {
		test, err := who.With(body)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", who.Name, err)
		}
		asking = append(asking, op{who.Name, askAll(test, who.Targets(body, 1024))})
		if !who.Keeps {
			continue
		}
		parsing = append(parsing, op{who.Name, func(n int) error {
			for range n {
				if _, err := who.With(body); err != nil {
					return err
				}
			}
			return nil
		}})
	}
	return asking, parsing, nil
}

// askAll asks the targets one after the other, from where it stopped.
func askAll(test func(string) bool, targets []string) func(n int) error {
	i := 0
	return func(n int) error {
		for range n {
			test(targets[i%len(targets)])
			i++
		}
		return nil
	}
}
