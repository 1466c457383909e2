// Mutants changes the code of packages, one operator at a time, and asks their tests to notice:
//
//	go -C tools/mutants run . [-update] [PACKAGE...]
//
// Each mutant that no test notices, and each that no test reaches, has to stand in mutants.txt with
// the reason why it is harmless, or the run fails: a change can't lower a score without saying so.
// With -update the file is written anew; reasons stay with the lines of code that they are about.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	root = "../.."
	file = root + "/mutants.txt"
	why  = "not looked at yet" // until somebody does
)

// The packages whose promises the mutants attack.
var packages = []string{
	"backoff", "budget", "robots", "robots/robotscache", "hostlimit", "evidence", "evidence/audit", ".",
}

// A score is what the tests of a package did to its mutants.
type score struct {
	notices, reaches float64           // shares in percent: of those that were reached, and of all
	alive            map[string]string // why each survivor is harmless, by its name
}

func main() {
	log.SetFlags(0)
	update := flag.Bool("update", false, "write mutants.txt anew")
	flag.Parse()
	if flag.NArg() > 0 {
		packages = flag.Args()
	}
	known, err := read()
	if err != nil {
		log.Fatal(err)
	}
	worse := false
	for _, pkg := range packages {
		now, err := run(pkg)
		if err != nil {
			log.Fatalf("%s: %v", pkg, err)
		}
		was := known[pkg]
		fmt.Printf("%s: tests reach %.1f %% of the mutants and notice %.1f %% of those (before: %.1f and %.1f)\n",
			pkg, now.reaches, now.notices, was.reaches, was.notices)
		for _, name := range slices.Sorted(maps.Keys(now.alive)) {
			reason, listed := was.alive[name]
			if now.alive[name] = cmp.Or(reason, why); !listed {
				fmt.Println("\tnot listed:", name)
				worse = true
			}
		}
		known[pkg] = now
	}
	if *update {
		if err := write(known); err != nil {
			log.Fatal(err)
		}
	} else if worse {
		log.Fatal("mutants: tests notice less than mutants.txt says. Test the promise that the code keeps there, or list the mutant with -update and say why it is harmless.")
	}
}

// run lets gremlins loose on a package.
func run(pkg string) (score, error) {
	report, err := os.CreateTemp("", "mutants-*.json")
	if err != nil {
		return score{}, err
	}
	defer os.Remove(report.Name())
	report.Close()
	gremlins, err := exec.Command("go", "tool", "-n", "gremlins").Output()
	if err != nil {
		return score{}, err
	}
	cmd := exec.Command(strings.TrimSpace(string(gremlins)), "unleash", "./"+pkg, "--silent",
		"--workers=1", "--timeout-coefficient=10", "--invert-logical", "--invert-loopctrl", "--output="+report.Name())
	cmd.Dir, cmd.Stderr = root, os.Stderr
	if err := cmd.Run(); err != nil {
		return score{}, err
	}
	return parse(pkg, report.Name())
}

// parse reads gremlins' report, whose files are named from pkg on. It leaves out those of the
// packages below, which gremlins doesn't.
func parse(pkg, report string) (score, error) {
	data, err := os.ReadFile(report)
	if err != nil {
		return score{}, err
	}
	var result struct {
		Files []struct {
			Name      string `json:"file_name"`
			Mutations []struct {
				Type, Status string
				Line, Column int
			}
		}
	}
	if err := json.Unmarshal(data, &result); err != nil {
		return score{}, err
	}
	s := score{alive: map[string]string{}}
	var noticed, lived, unreached float64
	for _, f := range result.Files {
		if filepath.Base(f.Name) != f.Name {
			continue
		}
		name := path.Join(pkg, f.Name)
		code, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return score{}, err
		}
		lines := strings.Split(string(code), "\n")
		for _, m := range f.Mutations {
			line := lines[m.Line-1]
			indent := len(line) - len(strings.TrimLeft(line, "\t"))
			line = line[indent:]
			switch m.Status {
			case "KILLED", "TIMED OUT":
				noticed++
				continue
			case "LIVED":
				lived++
			case "NOT COVERED":
				if strings.HasPrefix(line, "case ") {
					continue // a coverage profile begins behind the colon
				}
				unreached++
			default:
				continue // what doesn't build is no mutant
			}
			s.alive[fmt.Sprintf("%s %s at %d of `%s`", name, strings.ToLower(m.Type), m.Column-indent, line)] = ""
		}
	}
	s.notices = 100 * noticed / max(1, noticed+lived)
	s.reaches = 100 * (noticed + lived) / max(1, noticed+lived+unreached)
	return s, nil
}

// read reads mutants.txt: a line "PACKAGE reaches R notices N", and after it for each survivor its
// name and, on the next line, why it is harmless.
func read() (map[string]score, error) {
	scores := map[string]score{}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return scores, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var s score
	var survivor string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case line == "" || line[0] == '#':
		case strings.HasPrefix(line, "\t\t"):
			s.alive[survivor] = line[2:]
		case line[0] == '\t':
			survivor = line[1:]
			s.alive[survivor] = ""
		default:
			var pkg string
			s = score{alive: map[string]string{}}
			if _, err := fmt.Sscanf(line, "%s reaches %f notices %f", &pkg, &s.reaches, &s.notices); err != nil {
				return nil, fmt.Errorf("mutants.txt: %q: %w", line, err)
			}
			scores[pkg] = s
		}
	}
	return scores, lines.Err()
}

func write(scores map[string]score) error {
	var b strings.Builder
	b.WriteString("# What the tests make of mutants (make mutants): the share in percent that they reach, and of those the\n")
	b.WriteString("# share that they notice; then each mutant that lives, and why that is harmless.\n")
	for _, pkg := range slices.Sorted(maps.Keys(scores)) {
		s := scores[pkg]
		fmt.Fprintf(&b, "\n%s reaches %.1f notices %.1f\n", pkg, s.reaches, s.notices)
		for _, name := range slices.Sorted(maps.Keys(s.alive)) {
			fmt.Fprintf(&b, "\t%s\n\t\t%s\n", name, s.alive[name])
		}
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
