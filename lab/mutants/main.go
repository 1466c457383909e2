// Mutants changes the code of packages, one operator at a time, and asks their tests to notice:
//
//	go -C lab/mutants run . [-update] [-for 20m] [-slowest 1s] [-j 2] [-run REGEXP] [-only REGEXP] [-fresh] [PACKAGE | FILE...]
//
// Each mutant that no test notices, and each that no test reaches, has to stand in mutants.txt with
// the reason why it is harmless, or the run fails: a change can't lower a score without saying so.
// For a package of which the file has a part ("of 203 tried, 701 in all") such mutants are printed;
// the run fails only where tests noticed a mutant in an earlier run, and don't any more. With
// -update the file is written anew; reasons stay with the lines of code that they are about.
//
// A test binary is built once, with a switch for each mutant (scheme.go); then each mutant is shown
// to the tests that reach it, the quick ones first. What a run has found out is kept in the user's
// cache, so that one which -for or an interrupt has ended goes on where it was, and that a change
// costs no more than the mutants of the files that changed, and the survivors; -fresh forgets it,
// which a change that takes tests away needs. A PACKAGE may be a module of its own, such as
// redis/redislimit. For a FILE only its mutants are tried. With -slowest,
// tests that take more processor time than that aren't asked, and with -run, those of another name:
// what they alone would notice is listed as if it lived, and tried again by a run that asks them.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"log"
	"maps"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	root = "../.."
	why  = "not looked at yet" // until somebody does
)

// The packages whose promises the mutants attack.
var packages = []string{
	"backoff", "budget", "publicnet", "robots", "robots/robotscache", "hostlimit", "redis/redislimit",
	"evidence", "evidence/audit", "evidence/audit/accesslog", "evidence/audit/bundle", "statuspage", "crawl", ".",
}

var verbose bool

// A score is what the tests of a package did to its mutants.
type score struct {
	notices, reaches float64           // shares in percent: of those that were reached, and of all
	tried, all       int               // number of mutants
	alive            map[string]string // why each survivor is harmless, by its name
	lost             map[string]bool   // survivors that tests have noticed in an earlier run
}

// A finding is the result of a mutant in a run, as the cache keeps it.
type finding struct {
	Status string
	By     string // the test that noticed, if it was asked alone
	File   string // hash of the code's file
	Tests  string // hash of the tests' binaries
	Lost   bool   `json:",omitempty"` // tests have noticed it before
}

func main() {
	log.SetFlags(0)
	update := flag.Bool("update", false, "write mutants.txt anew")
	limit := flag.Duration("for", 0, "end after this time; the next run goes on from there")
	slowest := flag.Duration("slowest", time.Hour, "leave out tests that take more processor time")
	names := flag.String("run", ".", "ask only the tests whose name matches")
	fresh := flag.Bool("fresh", false, "forget what earlier runs have found out")
	jobs := flag.Int("j", 1, "run so many test processes at once: for tests that wait more than they compute")
	only := flag.String("only", "", `try, again, only the mutants that match, such as queue\.go:336; the tests of a single one are heard`)
	flag.Parse()
	if flag.NArg() > 0 {
		packages = flag.Args()
	}
	known, err := read()
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second one ends the tool at once
	deadline := time.Now().Add(*limit)
	scores, worse := maps.Clone(known), false
	for _, pkg := range packages {
		file := ""
		if strings.HasSuffix(pkg, ".go") {
			pkg, file = path.Split(pkg)
			pkg = path.Clean(pkg)
		}
		r := runner{pkg: pkg, file: file, deadline: deadline, limited: *limit > 0, jobs: *jobs, slowest: *slowest, names: *names, only: *only}
		now, err := r.run(ctx, *fresh)
		if err != nil {
			log.Fatalf("%s: %v", pkg, err)
		}
		was, whole := known[pkg]
		whole = whole && was.tried == was.all
		for _, name := range slices.Sorted(maps.Keys(now.alive)) {
			reason, listed := was.alive[name]
			if now.alive[name] = cmp.Or(reason, why); !listed {
				fmt.Println("\tnot listed:", name)
				worse = worse || whole || now.lost[name]
			}
		}
		if left := now.all - now.tried; left > 0 {
			fmt.Printf("%s: %d mutants are still to try\n", pkg, left)
		}
		fmt.Printf("%s: tests reach %.1f %% of the mutants and notice %.1f %% of those (before: %.1f and %.1f)\n",
			pkg, now.reaches, now.notices, was.reaches, was.notices)
		scores[pkg] = now
	}
	if *update {
		if err := write(scores); err != nil {
			log.Fatal(err)
		}
	} else if worse {
		log.Fatal("mutants: tests notice less than mutants.txt says, or than they did before. " +
			"Test the promise that the code keeps there, or list the mutant with -update and say why it is harmless.")
	}
}

// A runner tries the mutants of a package, or of one of its files.
type runner struct {
	pkg, file, only string
	deadline        time.Time
	limited         bool
	jobs            int
	slowest         time.Duration
	names           string
}

// run returns the score, of the mutants that have been tried by now.
func (r *runner) run(ctx context.Context, fresh bool) (s score, err error) {
	c, err := load(r.pkg)
	if err != nil {
		return score{}, err
	}
	tmp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return score{}, err
	}
	defer os.RemoveAll(tmp)
	tested := []string{r.pkg}
	if r.pkg == "." { // whose promises are tested from outside
		tested = append(tested, "internal/promises")
	}
	b, err := newBench(ctx, c, tested, r.jobs, r.slowest, r.names, tmp)
	if err != nil {
		return score{}, err
	}
	state, err := stateFile(r.pkg)
	if err != nil {
		return score{}, err
	}
	found := map[string]finding{}
	if data, err := os.ReadFile(state); err == nil && !fresh {
		if err := json.Unmarshal(data, &found); err != nil {
			return score{}, err
		}
	}
	hashes := map[string]string{}
	for name, text := range c.text {
		sum := sha256.Sum256(text)
		hashes[name] = hex.EncodeToString(sum[:8])
	}
	fmt.Printf("%s: %d mutants, %d tests\n", r.pkg, len(c.mutants), len(b.tests))
	only, err := regexp.Compile(r.only)
	if err != nil {
		return score{}, err
	}
	meant, n := map[*mutant]bool{}, 0
	for _, m := range c.mutants {
		meant[m] = r.only != "" && only.MatchString(fmt.Sprintf("%s:%d %s", path.Join(m.pkg, m.file), m.line, m.name))
		if meant[m] {
			n++
		}
	}
	verbose = n == 1
	s.alive = map[string]string{}
	s.lost = map[string]bool{}
	s.all = len(c.mutants)
	counts := map[string]int{}
	count := func(m *mutant, f finding) {
		s.tried++
		if counts[f.Status]++; f.Status != noticed {
			s.alive[m.name], s.lost[m.name] = "", f.Lost
		}
	}
	// In an order in which a run that is cut short has seen some of every file. Those that need a
	// build of their own come last.
	slices.SortFunc(c.mutants, func(x, y *mutant) int {
		return cmp.Or(cmp.Compare(btoi(x.fixed), btoi(y.fixed)), cmp.Compare(crc32.ChecksumIEEE([]byte(x.name)), crc32.ChecksumIEEE([]byte(y.name))))
	})
	var mu sync.Mutex // guards s, counts and found
	err = each(r.jobs, c.mutants, func(i int, m *mutant) error {
		mu.Lock()
		defer mu.Unlock()
		f := found[m.name]
		same := f.File == hashes[m.file]
		asked := r.only == "" && (r.file == "" || r.file == m.file)
		if meant[m] || asked && (!same || f.Status != noticed && f.Tests != b.asked && f.Tests != b.hash) {
			if r.limited && time.Now().After(r.deadline) {
				if same && (f.Status != unreached || !strings.Contains(f.Tests, " of ")) { // as other tests have found it
					count(m, f)
				}
				return nil
			}
			before := f
			mu.Unlock()
			status, by, err := b.try(ctx, m, f.By)
			mu.Lock()
			if err != nil {
				return err
			}
			if f.Status, f.By = status, by; same && b.asked != b.hash && rank[before.Status] > rank[f.Status] {
				f = before // by a test that wasn't asked now
			}
			f.File = hashes[m.file]
			f.Tests = b.asked
			f.Lost = before.Lost || before.Status == noticed && f.Status != noticed
			found[m.name] = f
			if meant[m] || f.Status == lived || f.Status == unreached && r.names == "." {
				fmt.Printf("\t%d/%d %s: %s:%d %s\n", i+1, len(c.mutants), f.Status, path.Join(m.pkg, m.file), m.line, m.name)
			}
			if err := save(state, found); err != nil {
				return err
			}
			same = true
		}
		if same {
			count(m, f)
		}
		return nil
	})
	if err != nil {
		return score{}, err
	}
	reached := float64(counts[noticed] + counts[lived])
	s.notices = 100 * float64(counts[noticed]) / max(1, reached)
	s.reaches = 100 * reached / float64(max(1, s.tried))
	return s, nil
}

// stateFile is where what is known of a package's mutants is kept.
func stateFile(pkg string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "politeness-mutants")
	return filepath.Join(dir, strings.ReplaceAll(pkg, "/", "+")+".json"), os.MkdirAll(dir, 0o755)
}

func save(file string, found map[string]finding) error {
	data, err := json.MarshalIndent(found, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", data, 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
