package enginebench

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-project/sluice/engine/kernel"
)

const (
	limitTime    = 150 * time.Millisecond // of each limit
	smallestRead = 16 << 20               // below that a block lives in a core's own cache
)

func measureLimits(threads int, block int64, k kernel.Kernels) Limits {
	read, multiply, each := loops(k)
	l := Limits{ReadGBs: readRate(threads, max(block, smallestRead), read), HandOver: handOver()}
	if multiply != nil {
		const n = 20_000 // some ten microseconds: assembly is not interrupted
		l.MultiplyG = together(threads, func(int) int { multiply(n); return n * each })
	}
	return l
}

// readRate returns the GB/s that threads read together from a block, each from its own part. Caches count, as they do for weights.
func readRate(threads int, block int64, read func([]uint64)) float64 {
	words := int(block / 8)
	data := make([]uint64, words)
	for i := range data {
		data[i] = uint64(i) // pages that were never written are all one page
	}
	return together(threads, func(t int) int {
		part := data[t*words/threads : (t+1)*words/threads]
		read(part)
		return len(part) * 8
	})
}

// together has threads do work over and over for a while. Work returns how much it did; the result is 10⁹ of that per second.
func together(threads int, work func(thread int) int) float64 {
	var wg sync.WaitGroup
	var done atomic.Int64
	started := time.Now()
	for t := range threads {
		wg.Go(func() {
			for time.Since(started) < limitTime {
				done.Add(int64(work(t)))
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(started).Seconds() / 1e9
}

// readPlain reads words without vectors. Its sum has to go somewhere, or the reads would not be made.
func readPlain(part []uint64) {
	if sum(part) == 1<<63+1 {
		runtime.Gosched()
	}
}

func sum(part []uint64) uint64 {
	var a, b, c, d uint64
	for ; len(part) >= 8; part = part[8:] {
		p := (*[8]uint64)(part)
		a += p[0] + p[1]
		b += p[2] + p[3]
		c += p[4] + p[5]
		d += p[6] + p[7]
	}
	return a + b + c + d
}

// handOver returns the nanoseconds from one thread to another and back: the least of short series, since one in which a thread lost its
// processor tells nothing. It is 0 on a single processor, where there is no such thing.
func handOver() float64 {
	if runtime.GOMAXPROCS(0) < 2 || runtime.NumCPU() < 2 {
		return 0
	}
	const series, trips = 50, 200
	var ball atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread()
		for i := range int64(series * trips) {
			await(&ball, 2*i+1)
			ball.Store(2*i + 2)
		}
	})
	wg.Add(1)
	times := make([]float64, 0, series)
	go func() {
		defer wg.Done()
		runtime.LockOSThread()
		n := int64(0)
		for range series {
			started := time.Now()
			for range trips {
				ball.Store(2*n + 1)
				await(&ball, 2*n+2)
				n++
			}
			times = append(times, float64(time.Since(started).Nanoseconds())/trips)
		}
	}()
	wg.Wait()
	return slices.Min(times)
}

// await spins; now and then it lets others run, since the other side may have lost its processor.
func await(ball *atomic.Int64, want int64) {
	for i := 1; ball.Load() != want; i++ {
		if i%10_000 == 0 {
			runtime.Gosched()
		}
	}
}

// memory reads a status file of the Linux proc file system.
func memory(path string) (Memory, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Memory{}, fmt.Errorf("read how much memory is used (Linux only): %w", err)
	}
	var m Memory
	found := 0
	for line := range bytes.Lines(raw) {
		name, rest, _ := bytes.Cut(line, []byte(":"))
		into := map[string]*int64{"VmHWM": &m.Peak, "RssAnon": &m.Anonymous, "RssFile": &m.File}[string(name)]
		if into == nil {
			continue
		}
		kib, err := strconv.ParseInt(string(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB"))), 10, 64)
		if err != nil {
			return Memory{}, fmt.Errorf("%s: %s is not a number of kB", path, line)
		}
		*into = kib << 10
		found++
	}
	if found != 3 {
		return Memory{}, fmt.Errorf("%s lacks VmHWM, RssAnon or RssFile", path)
	}
	return m, nil
}
