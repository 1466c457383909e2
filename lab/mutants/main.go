// Mutants changes the code of packages, one operator at a time, and checks that their tests notice:
//
//	go -C lab/mutants run . [-update] [-for 20m] [-slowest 1s] [-j 2] [-run REGEXP] [-only REGEXP] [-fresh] [PACKAGE | FILE...]
//
// The run fails if a mutant that no test notices or reaches is missing in mutants.txt, with the
// reason why it is harmless. So no change lowers a score unseen. For some packages the file has
// only a part ("of 203 tried, 701 in all"). Of such a package these mutants are printed, and the
// run fails only if tests noticed a mutant in an earlier run and no longer do. With -update the
// file is written anew. Reasons stay with their lines of code.
//
// A test binary is built once, with a switch for each mutant (scheme.go). Then each mutant is shown
// to the tests that reach it, the quick ones first. The results of a run are kept in the user's
// cache. After -for or an interrupt the next run resumes there. After a change it tries only the
// survivors and the mutants of the changed files. If a change removes tests, use -fresh, which
// forgets the cache. A PACKAGE may be of another module, such as redis/redislimit. For a FILE only
// its mutants are tried. With -slowest, tests that take more processor time aren't run, and with
// -run, only those of this name are. Mutants that only the other tests would notice are listed as
// survivors, and a run with these tests tries them again.
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
	"backoff", "budget", "publicnet", "robots", "robots/robotscache",
	"hostlimit", "hostlimit/rules", "hostlimit/memory", "redis/redislimit", "evidence", "evidence/audit",
	"evidence/audit/accesslog", "evidence/audit/bundle", "statuspage", "revisit", "crawl", "crawl/internal/traps", ".",
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
	only := flag.String("only", "",
		`try, again, only the mutants that match, such as queue\.go:336; the tests of a single one are heard`)
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
	scores := maps.Clone(known)
	worse := false
	for _, pkg := range packages {
		file := ""
		if strings.HasSuffix(pkg, ".go") {
			pkg, file = path.Split(pkg)
			pkg = path.Clean(pkg)
		}
		r := runner{
			pkg:      pkg,
			file:     file,
			only:     *only,
			deadline: deadline,
			limited:  *limit > 0,
			jobs:     *jobs,
			slowest:  *slowest,
			names:    *names,
		}
		now, err := r.run(ctx, *fresh)
		if err != nil {
			log.Fatalf("%s: %v", pkg, err)
		}
		was, isKnown := known[pkg]
		wasWhole := isKnown && was.tried == was.all
		for _, name := range slices.Sorted(maps.Keys(now.alive)) {
			reason, listed := was.alive[name]
			now.alive[name] = cmp.Or(reason, why)
			if listed {
				continue
			}
			fmt.Println("\tnot listed:", name)
			// A list that is whole has all survivors. In another one a new name may never have been tried.
			worse = worse || wasWhole || now.lost[name]
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

// A session is the work of a runner on the code as it is now.
type session struct {
	*runner
	code   *code
	bench  *bench
	state  string            // file that keeps found
	hashes map[string]string // of the code's files
	meant  map[*mutant]bool  // that -only names

	mu     sync.Mutex // guards what follows
	found  map[string]finding
	counts map[string]int // of mutants, by their status
	score  score
}

// run returns the score, of the mutants that have been tried by now.
func (r *runner) run(ctx context.Context, fresh bool) (score, error) {
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
	s := &session{
		runner: r,
		code:   c,
		bench:  b,
		hashes: map[string]string{},
		meant:  map[*mutant]bool{},
		found:  map[string]finding{},
		counts: map[string]int{},
		score:  score{alive: map[string]string{}, lost: map[string]bool{}, all: len(c.mutants)},
	}
	if err := s.begin(fresh); err != nil {
		return score{}, err
	}
	err = each(r.jobs, c.mutants, func(i int, m *mutant) error { return s.take(ctx, i, m) })
	if err != nil {
		return score{}, err
	}
	return s.result(), nil
}

// begin recalls what earlier runs have found, and puts the mutants in their order.
func (s *session) begin(fresh bool) error {
	state, err := stateFile(s.pkg)
	if err != nil {
		return err
	}
	s.state = state
	if data, err := os.ReadFile(state); err == nil && !fresh {
		if err := json.Unmarshal(data, &s.found); err != nil {
			return err
		}
	}
	for name, text := range s.code.text {
		sum := sha256.Sum256(text)
		s.hashes[name] = hex.EncodeToString(sum[:8])
	}
	fmt.Printf("%s: %d mutants, %d tests\n", s.pkg, len(s.code.mutants), len(s.bench.tests))
	only, err := regexp.Compile(s.only)
	if err != nil {
		return err
	}
	for _, m := range s.code.mutants {
		if s.only != "" && only.MatchString(m.place()+" "+m.name) {
			s.meant[m] = true
		}
	}
	verbose = len(s.meant) == 1
	// In an order in which a run that is cut short has seen some of every file. Those that need a
	// build of their own come last.
	slices.SortFunc(s.code.mutants, func(x, y *mutant) int {
		return cmp.Or(
			cmp.Compare(btoi(x.fixed), btoi(y.fixed)),
			cmp.Compare(crc32.ChecksumIEEE([]byte(x.name)), crc32.ChecksumIEEE([]byte(y.name))),
		)
	})
	return nil
}

// take counts the i-th mutant. It is tried before, unless what earlier runs have found still holds.
func (s *session) take(ctx context.Context, i int, m *mutant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.found[m.name]
	holds := f.File == s.hashes[m.file]
	switch {
	case !s.mustTry(m, f):
		if !holds { // of a file that wasn't asked for now
			return nil
		}
	case s.limited && time.Now().After(s.deadline):
		// A test that wasn't asked may reach the mutant.
		isOpen := f.Status == unreached && strings.Contains(f.Tests, " of ")
		if !holds || isOpen {
			return nil
		}
	default:
		s.mu.Unlock()
		status, by, err := s.bench.try(ctx, m, f.By)
		s.mu.Lock()
		if err != nil {
			return err
		}
		f = s.learn(m, f, status, by)
		isUnreached := f.Status == unreached && s.names == "." // by all tests
		if s.meant[m] || f.Status == lived || isUnreached {
			fmt.Printf("\t%d/%d %s: %s %s\n", i+1, len(s.code.mutants), f.Status, m.place(), m.name)
		}
		if err := save(s.state, s.found); err != nil {
			return err
		}
	}
	s.count(m, f)
	return nil
}

// mustTry reports whether f, which earlier runs have found, doesn't answer what this run asks.
func (s *session) mustTry(m *mutant, f finding) bool {
	if s.meant[m] {
		return true
	}
	isAsked := s.only == "" && (s.file == "" || s.file == m.file)
	if !isAsked {
		return false
	}
	if f.File != s.hashes[m.file] {
		return true
	}
	// A mutant that was noticed once stays so. One that lived may have met fewer tests, or older ones.
	return f.Status != noticed && f.Tests != s.bench.asked && f.Tests != s.bench.hash
}

// learn keeps what a try has found, and returns it. before is what was found earlier.
func (s *session) learn(m *mutant, before finding, status, by string) finding {
	f := before
	f.Status = status
	f.By = by
	hash := s.hashes[m.file]
	askedSome := s.bench.asked != s.bench.hash
	if before.File == hash && askedSome && rank[before.Status] > rank[status] {
		f = before // by a test that wasn't asked now
	}
	f.File = hash
	f.Tests = s.bench.asked
	isLost := before.Status == noticed && f.Status != noticed
	f.Lost = before.Lost || isLost
	s.found[m.name] = f
	return f
}

func (s *session) count(m *mutant, f finding) {
	s.score.tried++
	s.counts[f.Status]++
	if f.Status != noticed {
		s.score.alive[m.name] = ""
		s.score.lost[m.name] = f.Lost
	}
}

// result returns the score of the mutants that were counted.
func (s *session) result() score {
	reached := float64(s.counts[noticed] + s.counts[lived])
	s.score.notices = 100 * float64(s.counts[noticed]) / max(1, reached)
	s.score.reaches = 100 * reached / float64(max(1, s.score.tried))
	return s.score
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
