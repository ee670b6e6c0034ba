package native

import (
	"fmt"
	"log/slog"

	"github.com/sluice-project/sluice/engine/native/exec"
)

// budget is the memory that the models may take together, and what they have taken of it.
type budget struct {
	limit int // bytes; 0: nothing bounds the sum
	taken int
	share int // for keys and values of each model that generates, where there is a limit
}

// take counts memory that is needed in any case.
func (b *budget) take(what string, bytes int) error {
	if b.limit > 0 && bytes > b.limit-b.taken {
		return fmt.Errorf("%s takes %d MiB, but of the %d MiB of engines.native.memory_mebibytes only %d are left; raise that, lower kv_memory_mebibytes, load less, or use a precision plan with smaller weights",
			what, mebibytes(bytes), b.limit>>20, (b.limit-b.taken)>>20)
	}
	b.taken += bytes
	return nil
}

// mebibytes rounds up.
func mebibytes(bytes int) int { return (bytes + 1<<20 - 1) >> 20 }

// workspace counts what steps of the models need, and leaves the rest to keys and values, in equal parts.
func (o *opener) workspace(models []*compiled) error {
	generators := 0
	for _, c := range models {
		rows := max(encoderRows, c.info.ContextTokens) // texts are not split
		if !c.files.Config.Encoder() {
			rows = o.tuning(c).PromptRows + o.cfg.Concurrency
			generators++
		}
		if err := o.budget.take("room for steps of model "+string(c.info.ID), c.prog.PassBytes(rows, c.info.ContextTokens, o.cfg.Threads)); err != nil {
			return err
		}
	}
	o.budget.share = (o.budget.limit - o.budget.taken) / max(1, generators)
	return nil
}

// keyValuePages is how many pages of keys and values a model may have: what the configuration says, or its share of a quarter of the
// memory that this process may use, and never more than its share of what the configuration allows the engine.
func (o *opener) keyValuePages(c *compiled) (int, error) {
	bytes, key := o.cfg.KVMemoryMebibytes<<20, "kv_memory_mebibytes"
	if bytes == 0 {
		bytes = memory() / 4 / max(1, len(o.cfg.Models))
	}
	if o.budget.limit > 0 && o.budget.share < bytes {
		if o.cfg.KVMemoryMebibytes > 0 {
			o.log.Warn("engines.native.memory_mebibytes leaves less for keys and values than kv_memory_mebibytes says", slog.String("model", string(c.info.ID)),
				slog.Int("mebibytes_left", o.budget.share>>20))
		}
		bytes, key = o.budget.share, "memory_mebibytes"
	}
	page := c.prog.PageBytes()
	if bytes < page {
		return 0, fmt.Errorf("keys and values may take %d bytes, but %d tokens alone take %d; raise engines.native.%s or use a plan with -kv8", bytes, exec.Positions(1), page, key)
	}
	return bytes / page, o.budget.take("room for keys and values of model "+string(c.info.ID), bytes/page*page)
}
