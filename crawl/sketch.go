package crawl

// A sketch has the words of a text, each once, without those that have a digit. Of a text of more
// than sketchSize words it has a sample. The sketches of two texts show how many words these share.
// The zero value belongs to a text without words.
type sketch struct {
	words [sketchSize]uint32 // the smallest hashes of the words, in order
	n     int                // number of words
}

const sketchSize = 16

// add adds a word by its hash.
func (k *sketch) add(word uint32) {
	if k.n == sketchSize && word >= k.words[sketchSize-1] {
		return
	}
	at := 0
	for at < k.n && k.words[at] < word {
		at++
	}
	if at < k.n && k.words[at] == word {
		return
	}
	k.n = min(k.n+1, sketchSize)
	copy(k.words[at+1:k.n], k.words[at:])
	k.words[at] = word
}

// Two texts are alike if they share all words but a few and a part of them: an id, a name, a
// greeting, the path that was asked for.
const (
	otherWords = 8
	otherPart  = 8
)

// isLike reports whether the texts of two sketches differ in few words, and share more.
func (k *sketch) isLike(o *sketch) bool {
	c := k.compare(o)
	words := float64(c.shared+c.differ) / c.sample
	most := c.sample * (otherWords + words/otherPart)
	return c.shared > c.differ && float64(c.differ) <= most
}

// isFarFrom reports whether the texts of two sketches differ in more words than they share. Texts
// that aren't alike may be like a third one, by chance or by a template. Texts that are far from
// each other aren't.
func (k *sketch) isFarFrom(o *sketch) bool {
	c := k.compare(o)
	return c.shared < c.differ
}

// A comparison is of the words that two sketches would have, if their texts had them.
type comparison struct {
	shared int
	differ int     // words of the one that has more of them and that the other doesn't have
	sample float64 // which part of all words the sketches would have
}

// compare compares two sketches.
func (k *sketch) compare(o *sketch) comparison {
	last := min(k.last(), o.last())
	shared := 0
	mine := 0
	others := 0
	for mine < k.n && others < o.n && min(k.words[mine], o.words[others]) <= last {
		a := k.words[mine]
		b := o.words[others]
		if a == b {
			shared++
		}
		if a <= b {
			mine++
		}
		if b <= a {
			others++
		}
	}
	for mine < k.n && k.words[mine] <= last {
		mine++
	}
	for others < o.n && o.words[others] <= last {
		others++
	}
	return comparison{
		shared: shared,
		differ: max(mine, others) - shared,
		sample: (float64(last) + 1) / (1 << 32),
	}
}

// last returns the largest hash that k would have, if its text had the word.
func (k *sketch) last() uint32 {
	if k.n < sketchSize {
		return 1<<32 - 1
	}
	return k.words[sketchSize-1]
}
