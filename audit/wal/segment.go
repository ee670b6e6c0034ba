package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/sluice-project/sluice/audit/content"
	"github.com/sluice-project/sluice/audit/record"
)

// A segment file is a header and frames. All integers are little endian; checksums are CRC-32C.
//
//	header: "SLUICEW1" | first sequence u64 | checksum u32 over magic, first, file name
//	frame:  "SLWF" | payload length u32 | sequence u64 | checksum u32 over length, sequence, payload | payload
//
// What a record keeps encrypted stands directly before it, in frames of its sequence whose checksum covers the magic too: "SLWK" holds a
// wrapped key, "SLWC" a ciphertext, "SLWM" a mark, which another concern keeps with the record. A record counts only with all that stands before it.
//
// The checksum of the header covers the file name, so swapped or renamed segments show. The frame magic lets a reader find good
// frames behind a bad one: that is how a torn tail (nothing readable follows) is told from damage in the middle.
const (
	headerMagic = "SLUICEW1"
	frameMagic  = "SLWF"
	KindKey     = "SLWK"
	KindContent = "SLWC"
	KindMark    = "SLWM"
	anyMagic    = "SLW" // what all frames begin with
	headerSize  = 8 + 8 + 4
	frameHead   = 4 + 4 + 8 + 4
	// MaxMark bounds a mark.
	MaxMark = 4 << 20
	// maxAttached bounds what stands before a record: a key, a text of each direction and a mark, with room for later kinds.
	maxAttached = 8
)

// Attachment is a frame that stands before its record.
type Attachment struct {
	Kind    string
	Payload []byte
}

func checksum(parts ...[]byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	var sum uint32
	for _, p := range parts {
		sum = crc32.Update(sum, table, p)
	}
	return sum
}

// AppendHeader appends the header of the segment called name.
func AppendHeader(b []byte, name string, first uint64) []byte {
	head := binary.LittleEndian.AppendUint64([]byte(headerMagic), first)
	head = binary.LittleEndian.AppendUint32(head, checksum(head, []byte(name)))
	return append(b, head...)
}

func appendFrame(b []byte, seq uint64, payload []byte) []byte {
	b = append(b, frameMagic...)
	head := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint64(b, seq)
	b = binary.LittleEndian.AppendUint32(b, checksum(b[head:], payload))
	return append(b, payload...)
}

// AppendRecord appends a record with what stands before it.
func AppendRecord(b []byte, f Record) []byte {
	for _, a := range f.Attached {
		b = appendAttachment(b, f.Seq, a)
	}
	return appendFrame(b, f.Seq, f.Payload)
}

func appendAttachment(b []byte, seq uint64, a Attachment) []byte {
	start := len(b)
	b = append(b, a.Kind...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(a.Payload)))
	b = binary.LittleEndian.AppendUint64(b, seq)
	b = binary.LittleEndian.AppendUint32(b, checksum(b[start:], a.Payload))
	return append(b, a.Payload...)
}

// maxFrame is how long the payload of a frame may be, 0 if there is no such frame.
func maxFrame(magic string) int64 {
	switch magic {
	case frameMagic:
		return record.MaxPayload
	case KindKey:
		return content.MaxKey
	case KindContent:
		return content.MaxText + content.Overhead
	case KindMark:
		return MaxMark
	default:
		return 0
	}
}

// readFrame reads the frame at the start of b, of any kind. ok is false if it is not whole and sound.
func readFrame(b []byte) (magic string, seq uint64, payload []byte, ok bool) {
	if len(b) < frameHead {
		return "", 0, nil, false
	}
	magic = string(b[:4])
	n := int64(binary.LittleEndian.Uint32(b[4:]))
	if limit := maxFrame(magic); limit == 0 || n > limit || int64(len(b)) < frameHead+n {
		return "", 0, nil, false
	}
	covered := b[:16]
	if magic == frameMagic {
		covered = b[4:16]
	}
	payload = b[frameHead : frameHead+n]
	if checksum(covered, payload) != binary.LittleEndian.Uint32(b[16:]) {
		return "", 0, nil, false
	}
	return magic, binary.LittleEndian.Uint64(b[8:]), payload, true
}

// Record is a record of the write-ahead log with what stands before it.
type Record struct {
	Seq      uint64
	Payload  []byte
	Attached []Attachment
}

// size is how many bytes of a segment f takes.
func (f Record) size() int64 { return frameSize(f.Payload, f.Attached) }

func frameSize(payload []byte, attached []Attachment) int64 {
	n := int64(frameHead + len(payload))
	for _, a := range attached {
		n += int64(frameHead + len(a.Payload))
	}
	return n
}

// readRecord reads the record at the start of b with what stands before it. If that is not whole and sound, good is how many bytes at the
// start of b are.
func readRecord(b []byte) (f Record, good int64, ok bool) {
	for len(f.Attached) <= maxAttached {
		magic, seq, payload, ok := readFrame(b[good:])
		if !ok || len(f.Attached) > 0 && seq != f.Seq {
			return Record{}, good, false
		}
		f.Seq = seq
		if magic == frameMagic {
			f.Payload = payload
			return f, f.size(), true
		}
		f.Attached = append(f.Attached, Attachment{magic, payload})
		good += int64(frameHead + len(payload))
	}
	return Record{}, good, false
}

// Damage says what follows the last good frame of a segment.
type Damage int

// The kinds of damage.
const (
	Whole   Damage = iota
	Torn           // an unfinished write: nothing readable follows
	Spoiled        // a frame of full length whose checksum fails, at the very end
	Corrupt        // good frames follow a bad one
)

// Image is what the bytes of a segment say.
type Image struct {
	First   uint64 // 0 if the header is unreadable
	Records []Record
	end     int64 // offset after the last good frame
	damage  Damage
}

func (i Image) ends() []int64 {
	out := make([]int64, len(i.Records))
	at := int64(headerSize)
	for n, f := range i.Records {
		at += f.size()
		out[n] = at
	}
	return out
}

// Parse reads the bytes of the segment called name.
func Parse(name string, b []byte) Image {
	if len(b) < headerSize {
		return Image{damage: Torn}
	}
	first := binary.LittleEndian.Uint64(b[8:])
	if string(b[:8]) != headerMagic || checksum(b[:16], []byte(name)) != binary.LittleEndian.Uint32(b[16:]) || first == 0 {
		return Image{damage: classify(b)}
	}
	img := Image{First: first, end: headerSize}
	for rest := b[headerSize:]; len(rest) > 0; rest = b[img.end:] {
		f, good, ok := readRecord(rest)
		if !ok || f.Seq != first+uint64(len(img.Records)) {
			if ok {
				good = 0 // a good record in the wrong place
			}
			img.damage = classify(rest[good:])
			return img
		}
		img.Records = append(img.Records, f)
		img.end += f.size()
	}
	return img
}

// classify looks at the bytes from the first bad frame on.
func classify(rest []byte) Damage {
	for at := 0; ; {
		i := bytes.Index(rest[at:], []byte(anyMagic))
		if i < 0 {
			break
		}
		if _, _, _, ok := readFrame(rest[at+i:]); ok {
			return Corrupt
		}
		at += i + 1
	}
	if len(rest) >= frameHead && maxFrame(string(rest[:4])) > 0 &&
		int64(len(rest)) == frameHead+int64(binary.LittleEndian.Uint32(rest[4:])) {
		return Spoiled
	}
	return Torn
}

// Segment is one file of the write-ahead log as the running process knows it.
type Segment struct {
	Path    string
	Writer  string
	Number  int
	First   uint64 // sequence of the first record
	Last    uint64 // sequence of the last durable record; first-1 when there is none
	Size    int64  // durable bytes
	Shipped int64  // offset behind the last record known to be in the database; 0 before the first
	landed  uint64 // sequence of that record
	keys    bool   // this run wrote wrapped keys or marks into it
}

// Waiting reports whether the segment has durable records that are not known to be in the database. A segment may be a header
// alone: the one that proved, after a failed write, that the disk takes writes again.
func (s *Segment) Waiting() bool { return max(s.Shipped, headerSize) < s.Size }

// Stored is a segment file as found on the disk. It knows where the frames that count end, those that the next segment of the
// writer voids being gone, and holds no payloads: after an outage there may be a gigabyte of them.
type Stored struct {
	Segment
	ends   []int64 // offset behind each record
	Damage Damage  // whole unless the segment is the writer's last, or damaged
	Cause  string
	Length int64 // bytes on the disk
}

var segmentName = regexp.MustCompile(`^([0-9a-f]{32})-([0-9]{8})\.log$`)

// Path returns where a segment of a writer is.
func Path(dir, writer string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%08d.log", writer, number))
}

// Segments reads every segment under dir, grouped by writer, oldest first. A file that disappears meanwhile was retired by
// the running process, which retires the oldest first, and is left out with those before it.
func Segments(dir string) ([]Stored, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read write-ahead log: %w", err)
	}
	var out []Stored
	for _, e := range entries { // sorted by name, hence by writer and number
		m := segmentName.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		number, err := strconv.Atoi(m[2])
		if err != nil {
			return nil, fmt.Errorf("read write-ahead log: %w", err)
		}
		path := filepath.Join(dir, e.Name())
		b, err := os.ReadFile(path)
		if os.IsNotExist(err) { // retired, and so are all before it: what was read of them must not look like the end before a gap
			out = slices.DeleteFunc(out, func(s Stored) bool { return s.Writer == m[1] })
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read write-ahead log: %w", err)
		}
		img := Parse(e.Name(), b)
		out = append(out, Stored{
			Segment: Segment{Path: path, Writer: m[1], Number: number, First: img.First, Size: img.end},
			ends:    img.ends(), Damage: img.damage, Length: int64(len(b)),
		})
	}
	for start := 0; start < len(out); {
		end := start + 1
		for end < len(out) && out[end].Writer == out[start].Writer {
			end++
		}
		settle(out[start:end])
		start = end
	}
	return out, nil
}

// settle decides, for the segments of one writer in order, which frames count. A segment that a later one takes over from is
// whole if it reaches the take-over point; what lies behind that point is the remains of a failed write.
func settle(segs []Stored) {
	limit := uint64(0) // first sequence of the next readable segment; 0 while there is none
	for i := range slices.Backward(segs) {
		s := &segs[i]
		s.Last = s.First + uint64(len(s.ends)) - 1
		s.Cause = fmt.Sprintf("the record behind sequence %d is unreadable (byte %d)", s.Last, s.Size)
		if limit != 0 {
			if s.First != 0 && s.First+uint64(len(s.ends)) >= limit && s.First <= limit {
				s.ends, s.Damage = s.ends[:limit-s.First], Whole
			} else if s.First != 0 || s.Damage == Corrupt {
				s.Damage = Corrupt
				s.Cause = fmt.Sprintf("it ends at sequence %d but the next segment begins at %d", s.Last, limit)
			} else {
				s.Damage = Whole // a header that never became durable: nothing was acknowledged here
			}
		}
		if s.First == 0 {
			s.Last, s.Cause = 0, "the header is unreadable"
			continue
		}
		s.Last = s.First + uint64(len(s.ends)) - 1
		s.Size = headerSize
		if n := len(s.ends); n > 0 {
			s.Size = s.ends[n-1]
		}
		limit = s.First
	}
	for i := 1; i < len(segs); i++ { // a file whose header was never written holds nothing: the writer got as far as before it
		if segs[i].First == 0 {
			segs[i].Last = segs[i-1].Last
		}
	}
}
