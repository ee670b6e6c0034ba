package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/governance/classify"
)

// largestText bounds the memory that a text takes.
const largestText = 64 << 20

func (a *app) maskCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "mask", Short: "Find and mask what is sensitive in your own data / 在自有数据中识别并遮盖敏感信息",
	}
	cmd.AddCommand(a.maskScan())
	return cmd
}

type scanFlags struct {
	types      []string
	format     string
	onlyCounts bool
	explain    bool
}

func (a *app) maskScan() *cobra.Command {
	f := &scanFlags{}
	cmd := &cobra.Command{
		Use: "scan [FILE…]", Short: "Print what is found in JSON Lines or text files / 扫描 JSON Lines 或文本文件",
		Long: `Looks for sensitive values without a server and without a key, to learn what is in one's data before choosing a policy. Reads the files,
or standard input: JSON Lines {"id", "text"} where the name ends in .jsonl or .ndjson, else plain text, whose name becomes its id. Writes one JSON
line for each text: {"id", "findings": [{"start", "end", "type", "score"}], "masked"}. Offsets count characters (Unicode code points), not bytes.
In "masked", what people know by its ends keeps them (138****8000, 张**) and all else becomes a label; nothing can be restored from it. A text may have 64 MiB; longer
text files are cut at line ends. Lines that cannot be read are left out, counted and named by number, and the exit code is then 1. With --explain each finding has
"form", what its form alone scores, and "reasons" [{"name", "weight"}] for it and, with a weight below zero, against it; the score is their sum, at most 1.

无需服务器与密钥，在自有数据中查找敏感信息，便于在选定策略前了解数据。读取文件或标准输入：文件名以 .jsonl 或 .ndjson 结尾的按
JSON Lines {"id", "text"} 读取，其余按纯文本读取，以文件名为 id。每段文本输出一行 JSON：{"id", "findings": [{"start", "end", "type", "score"}],
"masked"}，偏移按字符（Unicode 码位）计。"masked" 中常用号码与姓名只保留首尾（138****8000、张**），其余替换为标签，且不可还原。单段文本不超过 64 MiB，更长的
文本文件按行切分。无法读取的行会被略过、计数并列出行号，此时退出码为 1。加 --explain 后，每项结果另含 "form"（仅凭形式的得分）与
"reasons" [{"name", "weight"}]（支持的理由；权重为负的是反对的理由），score 为其总和，最多为 1。`,
		Example: `  sluice mask scan calls.jsonl > found.jsonl
  sluice mask scan --only-counts *.txt
  sluice mask scan --explain note.txt
  cat note.txt | sluice mask scan --types person,cn_mobile`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.newScan(f)
			if err != nil {
				return err
			}
			return s.run(cmd.Context(), args)
		},
	}
	cmd.Flags().StringSliceVar(&f.types, "types", nil, "types to look for (default: all that a policy covers by default) / 要查找的类型（缺省为策略默认覆盖的类型）")
	cmd.Flags().StringVar(&f.format, "format", "auto", "auto, jsonl or text / 输入格式")
	cmd.Flags().BoolVar(&f.onlyCounts, "only-counts", false, "print a table of how much was found instead / 仅打印各类型的数量")
	cmd.Flags().BoolVar(&f.explain, "explain", false, "say why each value was found / 说明每个值为何被检出")
	return cmd
}

// scan is one run over the data.
type scan struct {
	app        *app
	set        *classify.Set
	format     string
	onlyCounts bool
	explain    bool
	limit      int // bytes of a text
	out        *bufio.Writer
	show       func(done, total int)

	batch        []waiting
	batched      int   // bytes of it
	read, total  int64 // bytes
	texts        int
	findings, in map[classify.Class]int // values, and texts that hold them
	bad          []string
	badLines     int
}

func (a *app) newScan(f *scanFlags) (*scan, error) {
	known, classes := classify.Classes(), []classify.Class{}
	for _, name := range f.types {
		c := classify.Class(strings.TrimSpace(name))
		if !slices.Contains(known, c) {
			names := make([]string, len(known))
			for i, k := range known {
				names[i] = string(k)
			}
			return nil, usageError{fmt.Errorf("--types: there is no type %q; the types are %s", name, strings.Join(names, ", "))}
		}
		classes = append(classes, c)
	}
	if !slices.Contains([]string{"auto", "jsonl", "text"}, f.format) {
		return nil, usageError{fmt.Errorf("--format is %q; want auto, jsonl or text", f.format)}
	}
	if f.onlyCounts && f.explain {
		return nil, usageError{errors.New("--only-counts prints no values to --explain; leave one of them out")}
	}
	return &scan{
		app: a, set: classify.New(classes...), format: f.format, onlyCounts: f.onlyCounts, explain: f.explain, limit: largestText, out: bufio.NewWriterSize(a.env.stdout, 1<<16),
		findings: map[classify.Class]int{}, in: map[classify.Class]int{},
	}, nil
}

func (s *scan) run(ctx context.Context, paths []string) error {
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		if info.IsDir() {
			return usageError{fmt.Errorf("%s is a folder; name the files in it", p)}
		}
		s.total += info.Size()
	}
	if s.total > 0 {
		s.show = s.app.progress("MB", "MB")
	}
	err := errors.Join(s.files(ctx, paths), s.flush(), s.out.Flush()) // what was found before a failure is printed, too
	if s.show != nil {
		s.show(1, 1)
	}
	if err != nil {
		return interrupted(err)
	}
	if s.onlyCounts {
		s.printCounts()
	}
	if s.badLines > 0 {
		more := ""
		if n := s.badLines - len(s.bad); n > 0 {
			more = fmt.Sprintf(s.app.say("\n… and %d more", "\n……另有 %d 处"), n)
		}
		return fmt.Errorf(s.app.say("%d places could not be read and were left out:\n%s%s", "%d 处无法读取，已略过：\n%s%s"), s.badLines, strings.Join(s.bad, "\n"), more)
	}
	return nil
}

func (s *scan) files(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return s.reader(ctx, "stdin", s.app.env.stdin)
	}
	for _, p := range paths {
		file, err := os.Open(p)
		if err != nil {
			return err
		}
		err = s.reader(ctx, p, file)
		_ = file.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *scan) reader(ctx context.Context, name string, r io.Reader) error {
	in := bufio.NewReaderSize(r, 1<<16)
	lines := s.format == "jsonl"
	if s.format == "auto" {
		switch strings.ToLower(filepath.Ext(name)) {
		case ".jsonl", ".ndjson":
			lines = true
		case "":
			lines = beginsObject(in)
		}
	}
	if lines {
		return s.jsonLines(ctx, name, in)
	}
	return s.plainText(ctx, name, in)
}

// beginsObject reports whether what comes looks like JSON Lines.
func beginsObject(in *bufio.Reader) bool {
	head, _ := in.Peek(512) // shorter inputs give what they have
	return strings.HasPrefix(strings.TrimLeft(string(head), "\ufeff \t\r\n"), "{")
}

// readLine returns the next line with its end; whether it was too long, and was then skipped; and whether the input ends with it.
func (s *scan) readLine(in *bufio.Reader) (line []byte, tooLong, end bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		s.read += int64(len(part))
		if tooLong = tooLong || len(line)+len(part) > s.limit; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) {
			return line, tooLong, true, nil
		}
		return line, tooLong, false, err
	}
}

func (s *scan) jsonLines(ctx context.Context, name string, in *bufio.Reader) error {
	for n := 1; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		raw, tooLong, end, err := s.readLine(in)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		line := strings.Trim(strings.TrimPrefix(string(raw), "\ufeff"), " \t\r\n")
		place := fmt.Sprintf("%s:%d", name, n)
		switch {
		case tooLong:
			s.refuse(place, s.app.say("longer than 64 MiB", "超过 64 MiB"))
		case line != "":
			if err := s.jsonLine(place, n, line); err != nil {
				return err
			}
		}
		if end {
			return nil
		}
	}
}

func (s *scan) jsonLine(place string, n int, line string) error {
	var in struct {
		ID   json.RawMessage `json:"id"`
		Text *string         `json:"text"`
	}
	if object := json.Unmarshal([]byte(line), &in) == nil; !object || in.Text == nil {
		s.refuse(place, s.app.say(`not a JSON object with a "text"`, `不是含 "text" 的 JSON 对象`))
		return nil
	}
	if in.ID == nil {
		in.ID = json.RawMessage(fmt.Sprint(n))
	}
	return s.text(in.ID, *in.Text)
}

// plainText takes a file as one text, or as several where it is longer than a text may be.
func (s *scan) plainText(ctx context.Context, name string, in *bufio.Reader) error {
	var text []byte
	first, cut := 1, false
	give := func() error {
		id := name
		if cut {
			id = fmt.Sprintf("%s:%d", name, first)
		}
		raw, err := json.Marshal(id)
		if err != nil {
			return err
		}
		if !utf8.Valid(text) {
			s.refuse(id, s.app.say("not UTF-8; convert it first", "不是 UTF-8，请先转换"))
			return nil
		}
		return s.text(raw, string(text))
	}
	for n := 1; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, tooLong, end, err := s.readLine(in)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if tooLong {
			s.refuse(fmt.Sprintf("%s:%d", name, n), s.app.say("a line longer than 64 MiB", "单行超过 64 MiB"))
		}
		if len(text)+len(line) > s.limit {
			cut = true
			if err := give(); err != nil {
				return err
			}
			text, first = text[:0], n
		}
		text = append(text, line...)
		if end {
			if len(text) == 0 {
				return nil
			}
			return give()
		}
	}
}

// refuse notes what could not be read. The text itself is not shown.
func (s *scan) refuse(place, why string) {
	const shown = 20
	if s.badLines++; s.badLines <= shown {
		s.bad = append(s.bad, "  "+place+": "+why)
	}
}
