package audit

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
// wrapped key, "SLWC" a ciphertext. A record counts only with all that stands before it.
//
// The checksum of the header covers the file name, so swapped or renamed segments show. The frame magic lets a reader find good
// frames behind a bad one: that is how a torn tail (nothing readable follows) is told from damage in the middle.
const (
	headerMagic  = "SLUICEW1"
	frameMagic   = "SLWF"
	keyMagic     = "SLWK"
	contentMagic = "SLWC"
	anyMagic     = "SLW" // what all frames begin with
	headerSize   = 8 + 8 + 4
	frameHead    = 4 + 4 + 8 + 4
	// maxAttached bounds what stands before a record: a key and a text of each direction, with room for later kinds.
	maxAttached = 8
)

// attachment is a frame that stands before its record.
type attachment struct {
	magic   string
	payload []byte
}

func checksum(parts ...[]byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	var sum uint32
	for _, p := range parts {
		sum = crc32.Update(sum, table, p)
	}
	return sum
}

func segmentHeader(name string, first uint64) []byte {
	b := binary.LittleEndian.AppendUint64([]byte(headerMagic), first)
	return binary.LittleEndian.AppendUint32(b, checksum(b, []byte(name)))
}

func appendFrame(b []byte, seq uint64, payload []byte) []byte {
	b = append(b, frameMagic...)
	head := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint64(b, seq)
	b = binary.LittleEndian.AppendUint32(b, checksum(b[head:], payload))
	return append(b, payload...)
}

func appendAttachment(b []byte, seq uint64, a attachment) []byte {
	start := len(b)
	b = append(b, a.magic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(a.payload)))
	b = binary.LittleEndian.AppendUint64(b, seq)
	b = binary.LittleEndian.AppendUint32(b, checksum(b[start:], a.payload))
	return append(b, a.payload...)
}

// maxFrame is how long the payload of a frame may be, 0 if there is no such frame.
func maxFrame(magic string) int64 {
	switch magic {
	case frameMagic:
		return record.MaxPayload
	case keyMagic:
		return content.MaxKey
	case contentMagic:
		return maxContentBytes + content.Overhead
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

// frame is a record of the write-ahead log with what stands before it.
type frame struct {
	seq      uint64
	payload  []byte
	attached []attachment
}

// size is how many bytes of a segment f takes.
func (f frame) size() int64 { return frameSize(f.payload, f.attached) }

func frameSize(payload []byte, attached []attachment) int64 {
	n := int64(frameHead + len(payload))
	for _, a := range attached {
		n += int64(frameHead + len(a.payload))
	}
	return n
}

// readRecord reads the record at the start of b with what stands before it. If that is not whole and sound, good is how many bytes at the
// start of b are.
func readRecord(b []byte) (f frame, good int64, ok bool) {
	for len(f.attached) <= maxAttached {
		magic, seq, payload, ok := readFrame(b[good:])
		if !ok || len(f.attached) > 0 && seq != f.seq {
			return frame{}, good, false
		}
		f.seq = seq
		if magic == frameMagic {
			f.payload = payload
			return f, f.size(), true
		}
		f.attached = append(f.attached, attachment{magic, payload})
		good += int64(frameHead + len(payload))
	}
	return frame{}, good, false
}

// damage says what follows the last good frame of a segment.
type damage int

const (
	whole   damage = iota
	torn           // an unfinished write: nothing readable follows
	spoiled        // a frame of full length whose checksum fails, at the very end
	corrupt        // good frames follow a bad one
)

// image is what the bytes of a segment say.
type image struct {
	first  uint64 // 0 if the header is unreadable
	frames []frame
	end    int64 // offset after the last good frame
	damage damage
}

func (i image) ends() []int64 {
	out := make([]int64, len(i.frames))
	at := int64(headerSize)
	for n, f := range i.frames {
		at += f.size()
		out[n] = at
	}
	return out
}

// parseSegment reads the bytes of the segment called name.
func parseSegment(name string, b []byte) image {
	if len(b) < headerSize {
		return image{damage: torn}
	}
	first := binary.LittleEndian.Uint64(b[8:])
	if string(b[:8]) != headerMagic || checksum(b[:16], []byte(name)) != binary.LittleEndian.Uint32(b[16:]) || first == 0 {
		return image{damage: classify(b)}
	}
	img := image{first: first, end: headerSize}
	for rest := b[headerSize:]; len(rest) > 0; rest = b[img.end:] {
		f, good, ok := readRecord(rest)
		if !ok || f.seq != first+uint64(len(img.frames)) {
			if ok {
				good = 0 // a good record in the wrong place
			}
			img.damage = classify(rest[good:])
			return img
		}
		img.frames = append(img.frames, f)
		img.end += f.size()
	}
	return img
}

// classify looks at the bytes from the first bad frame on.
func classify(rest []byte) damage {
	for at := 0; ; {
		i := bytes.Index(rest[at:], []byte(anyMagic))
		if i < 0 {
			break
		}
		if _, _, _, ok := readFrame(rest[at+i:]); ok {
			return corrupt
		}
		at += i + 1
	}
	if len(rest) >= frameHead && maxFrame(string(rest[:4])) > 0 &&
		int64(len(rest)) == frameHead+int64(binary.LittleEndian.Uint32(rest[4:])) {
		return spoiled
	}
	return torn
}

// segment is one file of the write-ahead log as the running process knows it.
type segment struct {
	path    string
	writer  string
	number  int
	first   uint64 // sequence of the first record
	last    uint64 // sequence of the last durable record; first-1 when there is none
	size    int64  // durable bytes
	shipped int64  // offset behind the last record known to be in the database; 0 before the first
	landed  uint64 // sequence of that record
	keys    bool   // this run wrote wrapped keys into it
}

// waiting reports whether the segment has durable records that are not known to be in the database. A segment may be a header
// alone: the one that proved, after a failed write, that the disk takes writes again.
func (s *segment) waiting() bool { return max(s.shipped, headerSize) < s.size }

// stored is a segment file as found on the disk. It knows where the frames that count end, those that the next segment of the
// writer voids being gone, and holds no payloads: after an outage there may be a gigabyte of them.
type stored struct {
	segment
	ends   []int64 // offset behind each record
	damage damage  // whole unless the segment is the writer's last, or damaged
	cause  string
	length int64 // bytes on the disk
}

var segmentName = regexp.MustCompile(`^([0-9a-f]{32})-([0-9]{8})\.log$`)

func segmentPath(dir, writer string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%08d.log", writer, number))
}

// readSegments reads every segment under dir, grouped by writer, oldest first. A file that disappears meanwhile was retired by
// the running process, which retires the oldest first, and is left out with those before it.
func readSegments(dir string) ([]stored, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read write-ahead log: %w", err)
	}
	var out []stored
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
			out = slices.DeleteFunc(out, func(s stored) bool { return s.writer == m[1] })
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read write-ahead log: %w", err)
		}
		img := parseSegment(e.Name(), b)
		out = append(out, stored{
			segment: segment{path: path, writer: m[1], number: number, first: img.first, size: img.end},
			ends:    img.ends(), damage: img.damage, length: int64(len(b)),
		})
	}
	for start := 0; start < len(out); {
		end := start + 1
		for end < len(out) && out[end].writer == out[start].writer {
			end++
		}
		settle(out[start:end])
		start = end
	}
	return out, nil
}

// settle decides, for the segments of one writer in order, which frames count. A segment that a later one takes over from is
// whole if it reaches the take-over point; what lies behind that point is the remains of a failed write.
func settle(segs []stored) {
	limit := uint64(0) // first sequence of the next readable segment; 0 while there is none
	for i := range slices.Backward(segs) {
		s := &segs[i]
		s.last = s.first + uint64(len(s.ends)) - 1
		s.cause = fmt.Sprintf("the record behind sequence %d is unreadable (byte %d)", s.last, s.size)
		if limit != 0 {
			if s.first != 0 && s.first+uint64(len(s.ends)) >= limit && s.first <= limit {
				s.ends, s.damage = s.ends[:limit-s.first], whole
			} else if s.first != 0 || s.damage == corrupt {
				s.damage = corrupt
				s.cause = fmt.Sprintf("it ends at sequence %d but the next segment begins at %d", s.last, limit)
			} else {
				s.damage = whole // a header that never became durable: nothing was acknowledged here
			}
		}
		if s.first == 0 {
			s.last, s.cause = 0, "the header is unreadable"
			continue
		}
		s.last = s.first + uint64(len(s.ends)) - 1
		s.size = headerSize
		if n := len(s.ends); n > 0 {
			s.size = s.ends[n-1]
		}
		limit = s.first
	}
	for i := 1; i < len(segs); i++ { // a file whose header was never written holds nothing: the writer got as far as before it
		if segs[i].first == 0 {
			segs[i].last = segs[i-1].last
		}
	}
}
