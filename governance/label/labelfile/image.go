package labelfile

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/xml"
	"hash/crc32"
	"io"
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

const (
	pngHead    = "\x89PNG\r\n\x1a\n"
	pngKeyword = "XML:com.adobe.xmp\x00"
	jpegXMP    = "http://ns.adobe.com/xap/1.0/\x00"

	labelSpace = "http://www.tc260.org.cn/ns/AIGC/1.0/"
	rdfSpace   = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

	maxSegment = 0xffff - 2 // bytes of a JPEG segment behind its length
)

// xmpLabel is a label in an XMP packet: its text, and where its value stands. That of an attribute stands between the quotes.
type xmpLabel struct {
	value     string
	from, to  int
	attribute bool
}

// xmpLabels returns the labels of a packet, and where a description can be added.
func xmpLabels(packet []byte) (out []xmpLabel, end int, err error) {
	end = -1
	var now *xmpLabel
	err = walkXML(packet, func(t xml.Token, around []string, from, to int) error {
		switch e := t.(type) {
		case xml.StartElement:
			for _, a := range e.Attr {
				if a.Name.Space == labelSpace && a.Name.Local == "AIGC" {
					out = append(out, xmpLabel{value: a.Value, attribute: true})
				}
			}
			if e.Name.Space == labelSpace && e.Name.Local == "AIGC" && now == nil {
				now = &xmpLabel{from: to}
			}
		case xml.CharData:
			if now != nil {
				now.value += string(e)
			}
		case xml.EndElement:
			if now != nil && e.Name.Space == labelSpace && e.Name.Local == "AIGC" {
				now.to = from
				out, now = append(out, *now), nil
			}
			if e.Name.Space == rdfSpace && e.Name.Local == "RDF" {
				end = from
			}
		}
		return nil
	})
	return out, end, err
}

// description is the property on its own.
func description(value string) string {
	return `<rdf:Description xmlns:rdf="` + rdfSpace + `" rdf:about="" xmlns:TC260="` + labelSpace + `"><TC260:AIGC>` + escapeXML(value) + `</TC260:AIGC></rdf:Description>`
}

// labelled puts a label into a packet, or makes a packet.
func labelled(packet []byte, value string) ([]byte, error) {
	if packet == nil {
		return []byte(`<?xpacket begin="` + "\ufeff" + `" id="W5M0MpCehiHzreSzNTczkc9d"?><x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="` + rdfSpace + `">` +
			description(value) + `</rdf:RDF></x:xmpmeta><?xpacket end="w"?>`), nil
	}
	all, end, err := xmpLabels(packet)
	if err != nil {
		return nil, err
	}
	switch {
	case len(all) > 0 && all[0].attribute:
		return nil, refuse(fault.Say("labelfile.xmp_attribute"))
	case len(all) > 0:
		return splice(packet, all[0].from, all[0].to, escapeXML(value)), nil
	case end < 0 || !bytes.HasPrefix(packet[end:], []byte("</")): // no description can be added to an element of one tag
		return nil, refuse(fault.Say("labelfile.xml"))
	default:
		return splice(packet, end, end, description(value)), nil
	}
}

// xmpMarks reads the labels of packets.
func xmpMarks(packets [][]byte) ([]Mark, error) {
	var out []Mark
	for _, p := range packets {
		all, _, err := xmpLabels(p)
		if err != nil {
			return nil, err
		}
		for _, l := range all {
			out = append(out, mark("XMP packet", strings.TrimSpace(l.value)))
		}
	}
	return out, nil
}

// chunk is a part of a PNG: where it begins, and its data.
type chunk struct {
	kind     string
	from, to int // with length, kind and checksum
	data     []byte
}

// chunks reads the chunks of a PNG up to its end, and checks each one's checksum.
func chunks(data []byte) ([]chunk, error) {
	var out []chunk
	for at := len(pngHead); at+12 <= len(data); {
		n := binary.BigEndian.Uint32(data[at:])
		if n > 1<<31-1 || int64(n) > int64(len(data)-at-12) {
			return nil, refuse(fault.Say("labelfile.image"))
		}
		c := chunk{kind: string(data[at+4 : at+8]), from: at, to: at + 12 + int(n), data: data[at+8 : at+8+int(n)]}
		if crc32.ChecksumIEEE(data[at+4:at+8+int(n)]) != binary.BigEndian.Uint32(data[c.to-4:]) {
			return nil, refuse(fault.Say("labelfile.image"))
		}
		if out = append(out, c); c.kind == "IEND" {
			return out, nil
		}
		at = c.to
	}
	return nil, refuse(fault.Say("labelfile.image"))
}

// readChunks checks that a PNG is one whose labels can be told.
func readChunks(data []byte) (all []chunk, packets [][]byte, at []int, err error) {
	if !bytes.HasPrefix(data, []byte(pngHead)) {
		return nil, nil, nil, refuse(fault.Say("labelfile.image"))
	}
	if all, err = chunks(data); err != nil {
		return nil, nil, nil, err
	}
	if all[0].kind != "IHDR" {
		return nil, nil, nil, refuse(fault.Say("labelfile.image"))
	}
	for i, c := range all {
		if c.kind != "iTXt" || !bytes.HasPrefix(c.data, []byte(pngKeyword)) {
			continue
		}
		packet, err := internationalText(c.data[len(pngKeyword):])
		if err != nil {
			return nil, nil, nil, err
		}
		packets, at = append(packets, packet), append(at, i)
	}
	return all, packets, at, nil
}

// internationalText returns the text of an iTXt chunk behind its keyword.
func internationalText(b []byte) ([]byte, error) {
	if len(b) < 4 || b[0] > 1 || b[1] != 0 {
		return nil, refuse(fault.Say("labelfile.image"))
	}
	packed := b[0] == 1
	b = b[2:]
	for range 2 { // the language and the translated keyword
		end := bytes.IndexByte(b, 0)
		if end < 0 {
			return nil, refuse(fault.Say("labelfile.image"))
		}
		b = b[end+1:]
	}
	if !packed {
		return b, nil
	}
	return unpack(b)
}

// unpack inflates what is not larger than a part may be.
func unpack(b []byte) ([]byte, error) {
	z, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, refuse(fault.Say("labelfile.compressed"))
	}
	out, err := io.ReadAll(io.LimitReader(z, maxPart+1))
	if err != nil || len(out) > maxPart {
		return nil, refuse(fault.Say("labelfile.compressed"))
	}
	return out, nil
}

func readPNG(data []byte) (Found, error) {
	_, packets, _, err := readChunks(data)
	if err != nil {
		return Found{}, err
	}
	marks, err := xmpMarks(packets)
	return Found{Marks: marks}, err
}

func writePNG(data []byte, value, _ string) ([]byte, error) {
	all, packets, at, err := readChunks(data)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if c.kind == "caBX" { // content credentials (C2PA) cover the file's bytes
			return nil, refuse(fault.Say("labelfile.credentials"))
		}
	}
	if len(packets) > 1 {
		return nil, refuse(fault.Say("labelfile.packets"))
	}
	from, to, old := all[0].to, all[0].to, []byte(nil) // behind the header
	if len(packets) == 1 {
		from, to, old = all[at[0]].from, all[at[0]].to, packets[0]
	}
	packet, err := labelled(old, value)
	if err != nil {
		return nil, err
	}
	return splice(data, from, to, string(newChunk("iTXt", append([]byte(pngKeyword+"\x00\x00\x00\x00"), packet...)))), nil
}

func newChunk(kind string, data []byte) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	out = append(append(out, kind...), data...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out[4:]))
}

// segment is a part of a JPEG before its pixels.
type segment struct {
	marker   byte
	from, to int // with marker and length
	data     []byte
}

// segments reads the head of a JPEG, up to its first scan.
func segments(data []byte) ([]segment, error) {
	if !bytes.HasPrefix(data, []byte("\xff\xd8")) {
		return nil, refuse(fault.Say("labelfile.image"))
	}
	var out []segment
	for at := 2; at+4 <= len(data); {
		start := at
		for data[at] == 0xff && at+3 < len(data) && data[at+1] == 0xff { // fill bytes
			at++
		}
		marker := data[at+1]
		if data[at] != 0xff || marker < 0xc0 || marker >= 0xd0 && marker <= 0xd9 || at+4 > len(data) {
			break
		}
		n := int(binary.BigEndian.Uint16(data[at+2:]))
		if n < 2 || at+2+n > len(data) {
			break
		}
		out = append(out, segment{marker, start, at + 2 + n, data[at+4 : at+2+n]})
		if marker == 0xda {
			return out, nil
		}
		at += 2 + n
	}
	return nil, refuse(fault.Say("labelfile.image"))
}

// xmpSegments returns the numbers of the segments that have XMP.
func xmpSegments(all []segment) (at []int, packets [][]byte) {
	for i, s := range all {
		if s.marker == 0xe1 && bytes.HasPrefix(s.data, []byte(jpegXMP)) {
			at, packets = append(at, i), append(packets, s.data[len(jpegXMP):])
		}
	}
	return at, packets
}

func readJPEG(data []byte) (Found, error) {
	all, err := segments(data)
	if err != nil {
		return Found{}, err
	}
	_, packets := xmpSegments(all)
	marks, err := xmpMarks(packets)
	return Found{Marks: marks}, err
}

func writeJPEG(data []byte, value, _ string) ([]byte, error) {
	all, err := segments(data)
	if err != nil {
		return nil, err
	}
	from := 2
	for i, s := range all {
		if s.marker == 0xeb && bytes.Contains(s.data, []byte("jumb")) { // content credentials (C2PA) cover the file's bytes
			return nil, refuse(fault.Say("labelfile.credentials"))
		}
		first := i < 2 && (s.marker == 0xe0 || s.marker == 0xe1 && bytes.HasPrefix(s.data, []byte("Exif\x00")))
		if first { // JFIF and Exif want to be first
			from = s.to
		}
	}
	at, packets := xmpSegments(all)
	if len(packets) > 1 {
		return nil, refuse(fault.Say("labelfile.packets"))
	}
	to, old := from, []byte(nil)
	if len(packets) == 1 {
		from, to, old = all[at[0]].from, all[at[0]].to, packets[0]
	}
	packet, err := labelled(old, value)
	if err != nil {
		return nil, err
	}
	body := append([]byte(jpegXMP), packet...)
	if len(body) > maxSegment {
		return nil, refuse(fault.Say("labelfile.packet_full"))
	}
	head := binary.BigEndian.AppendUint16([]byte{0xff, 0xe1}, uint16(len(body)+2)) //nolint:gosec // bounded above
	return splice(data, from, to, string(append(head, body...))), nil
}
