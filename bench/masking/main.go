// Command masking holds the detectors against Presidio's pattern recognisers on the same texts: what both find of the kinds both know,
// and how fast. Rounds alternate, so that both see the same machine.
//
//	go run ./bench/masking
//	go run ./bench/masking -documents 500 -rounds 5
//
// It installs presidio-analyzer from PyPI into a virtual environment below the user's cache directory; no language model is fetched.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/classify/corpus"
	"github.com/sluice-project/sluice/governance/classify/eval"
)

type options struct {
	set, regions      string
	prose             string
	documents, rounds int
	sample            int
}

func main() {
	var o options
	flag.StringVar(&o.set, "set", "gate", "gate or tune")
	flag.StringVar(&o.regions, "regions", "CN,HK,TW", "regions of Presidio's phone recogniser; empty: its default ones, without China")
	flag.IntVar(&o.documents, "documents", 0, "documents to compare on, spread over the set; 0: all")
	flag.IntVar(&o.sample, "sample", 500_000, "bytes of text to time on")
	flag.StringVar(&o.prose, "prose", "governance/classify/testdata/prose.txt", "plain Chinese prose to time on, too: a text a line")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds, alternating")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(run(ctx, o))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "masking:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, o options) error {
	if o.rounds < 1 {
		return fmt.Errorf("-rounds is %d; want at least 1", o.rounds)
	}
	set, err := corpus.Open(o.set)
	if err != nil {
		return err
	}
	set.Documents = spread(set.Documents, o.documents)
	prose, err := os.ReadFile(o.prose)
	if err != nil {
		return fmt.Errorf("read plain prose: %w; run this from the root of the repository, or say -prose", err)
	}
	peer, err := startPresidio(ctx, o.regions)
	if err != nil {
		return err
	}
	defer peer.stop()
	fmt.Printf("set %s (%.19s…), %d documents; Presidio %s on Python %s: %d pattern recognisers on by themselves, %d for English, %d in all; phone regions %q\n\n",
		set.Name, set.Digest(), len(set.Documents), peer.Version, peer.Python, len(peer.Recognizers[usual]), len(peer.Recognizers[english]), len(peer.Recognizers[every]), o.regions)
	if err := compareFindings(ctx, set, peer); err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	if err := compareSpeed(ctx, "plain Chinese prose", strings.Split(strings.TrimSpace(string(prose)), "\n"), peer, o.rounds); err != nil {
		return err
	}
	return compareSpeed(ctx, "the set, full of values", sampleOf(set, o.sample), peer, o.rounds)
}

// spread takes n of the documents, evenly.
func spread(all []corpus.Document, n int) []corpus.Document {
	if n <= 0 || n >= len(all) {
		return all
	}
	out := make([]corpus.Document, n)
	for i := range out {
		out[i] = all[i*len(all)/n]
	}
	return out
}

// common are the classes that both know, with Presidio's name.
func common() [][2]string {
	return [][2]string{
		{"email", "EMAIL_ADDRESS"},
		{"ipv4", "IP_ADDRESS"},
		{"ipv6", "IP_ADDRESS"},
		{"mac_address", "MAC_ADDRESS"},
		{"bank_card", "CREDIT_CARD"},
		{"cn_mobile", "PHONE_NUMBER"},
		{"cn_landline", "PHONE_NUMBER"},
		{"crypto_address", "CRYPTO"},
	}
}

func isCommon(class string) bool {
	return slices.ContainsFunc(common(), func(c [2]string) bool { return c[0] == class })
}

// ours finds the classes that both know.
func ours() eval.Detector {
	var names []string
	for _, c := range common() {
		names = append(names, c[0])
	}
	return eval.Of(names...)
}

// compareFindings scores both with the same code, on the values of the classes that both know.
func compareFindings(ctx context.Context, set corpus.Set, peer *presidio) error {
	theirs, err := peer.find(set.Documents)
	if err != nil {
		return err
	}
	a, err := eval.Run(ctx, eval.Config{Set: set, Detector: ours()})
	if err != nil {
		return err
	}
	b, err := eval.Run(ctx, eval.Config{Set: set, Detector: func(text string) []eval.Found { return theirs[text] }})
	if err != nil {
		return err
	}
	fmt.Printf("%-16s %7s  %-27s  %-27s\n", "recall", "values", "sluice", "presidio")
	for _, c := range common() {
		x, y := a.Class(c[0]), b.Class(c[0])
		fmt.Printf("%-16s %7d  %-27s  %-27s\n", c[0], x.Spans, share(x.Recall, x.Low, x.High), share(y.Recall, y.Low, y.High))
	}
	p, q := a.Overall, b.Overall
	fmt.Printf("%-16s %7s  %-27s  %-27s\n", "precision", "", share(p.Precision, p.PrecisionLow, p.PrecisionHigh), share(q.Precision, q.PrecisionLow, q.PrecisionHigh))
	n, m := a.Negatives, b.Negatives
	fmt.Printf("%-16s %7d  %-27s  %-27s\n\n", "negatives hurt", n.Documents, share(n.Rate, n.Low, n.High), share(m.Rate, m.Low, m.High))
	gaps := []string{}
	for _, class := range corpus.DefaultClasses() {
		if !isCommon(class) {
			gaps = append(gaps, class)
		}
	}
	fmt.Println("Presidio's pattern recognisers know nothing of:", gaps)
	fmt.Println("Its country folders hold none for China; names and places need a language model there, which this comparison leaves out.")
	fmt.Println()
	return nil
}

func share(v, low, high float64) string {
	return fmt.Sprintf("%6.2f %% [%.2f … %.2f]", 100*v, 100*low, 100*high)
}

// compareSpeed times both in turn, on one processor: ours with every class that there is, Presidio with each of its engines.
func compareSpeed(ctx context.Context, what string, texts []string, peer *presidio, rounds int) error {
	bytes := 0
	for _, t := range texts {
		bytes += len(t)
	}
	if err := peer.load(texts); err != nil {
		return err
	}
	all := classify.New(classify.Classes()...)
	var ourRates []float64
	theirRates, ratios := map[string][]float64{}, map[string][]float64{}
	for round := range rounds + 1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		rate := ourRound(all, texts, bytes)
		if round > 0 { // the first warms up
			ourRates = append(ourRates, rate)
		}
		for _, engine := range []string{usual, english, every} {
			seconds, err := peer.time(engine)
			if err != nil {
				return err
			}
			if theirs := float64(bytes) / 1e6 / seconds; round > 0 {
				theirRates[engine], ratios[engine] = append(theirRates[engine], theirs), append(ratios[engine], rate/theirs)
			}
		}
	}
	fmt.Printf("throughput on %s: %d texts, %d bytes, one processor, %d alternating rounds: median (least … most) in MB/s\n", what, len(texts), bytes, rounds)
	fmt.Printf("  %-34s %s\n", fmt.Sprintf("sluice, %d classes", len(classify.Classes())), rates(ourRates))
	for _, engine := range []string{usual, english, every} {
		r := ratios[engine]
		fmt.Printf("  %-34s %s  ratio %.0f (%.0f … %.0f)\n", fmt.Sprintf("presidio, %d recognisers (%s)", len(peer.Recognizers[engine]), engine), rates(theirRates[engine]), median(r), slices.Min(r), slices.Max(r))
	}
	fmt.Println()
	return nil
}

// sampleOf takes texts from all over the set until they have so many bytes.
func sampleOf(set corpus.Set, size int) (texts []string) {
	total := 0
	for _, d := range set.Documents {
		total += len(d.Text)
	}
	n := len(set.Documents)
	if size < total {
		n = max(1, int(float64(n)*float64(size)/float64(total)))
	}
	for _, d := range spread(set.Documents, n) {
		texts = append(texts, d.Text)
	}
	return texts
}

// ourRound goes through the texts for at least a second and returns MB/s.
func ourRound(set *classify.Set, texts []string, bytes int) float64 {
	begun, done := time.Now(), 0
	for time.Since(begun) < time.Second {
		for _, t := range texts {
			set.Find(t)
		}
		done += bytes
	}
	return float64(done) / 1e6 / time.Since(begun).Seconds()
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func rates(v []float64) string {
	return fmt.Sprintf("%.3f (%.3f … %.3f)", median(v), slices.Min(v), slices.Max(v))
}
