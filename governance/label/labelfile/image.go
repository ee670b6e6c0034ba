package labelfile

import (
	"bytes"
	"encoding/binary"
	"encoding/xml"
	"hash/crc32"

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

// xmpLabel is a label in an XMP packet: its text, and where its value stands.
type xmpLabel struct {
	value    text
	from, to int
	foreign  bool // an attribute, or a property of another name: it is read and not changed
}

// xmpLabels returns the labels of a packet, and where a description can be added.
func xmpLabels(packet []byte, r *room) (out []xmpLabel, end int, err error) {
	if len(packet) > maxPacket {
		return nil, 0, refuse(fault.Say("labelfile.unpacked"))
	}
	end = -1
	var now *xmpLabel
	depth := 0
	err = walkXML(packet, r, func(t xml.Token, around []string, from, to int) error {
		switch e := t.(type) {
		case xml.StartElement:
			for _, a := range e.Attr {
				if a.Name.Space != "xmlns" && namesLabel(a.Name.Local) && len(out) < maxMarks {
					out = append(out, xmpLabel{foreign: true})
					out[len(out)-1].value.add(a.Value)
				}
			}
			if namesLabel(e.Name.Local) && now == nil && len(out) < maxMarks {
				now, depth = &xmpLabel{from: to, foreign: e.Name.Space != labelSpace || e.Name.Local != "AIGC"}, len(around)
			}
		case xml.CharData:
			if now != nil {
				now.value.add(string(e))
			}
		case xml.EndElement:
			if now != nil && len(around) == depth {
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
	all, end, err := xmpLabels(packet, newRoom())
	if err != nil {
		return nil, err
	}
	switch {
	case len(all) > 0 && all[0].foreign:
		return nil, refuse(fault.Say("labelfile.xmp_attribute"))
	case len(all) > 0:
		return splice(packet, all[0].from, all[0].to, escapeXML(value)), nil
	case end < 0 || !bytes.HasPrefix(packet[end:], []byte("</")): // no description can be added to an element of one tag
		return nil, refuse(fault.Say("labelfile.xml"))
	default:
		return splice(packet, end, end, description(value)), nil
	}
}

// xmpMarks reads the labels of a packet; nil is none.
func xmpMarks(packet []byte, r *room) (out []Mark, err error) {
	if packet == nil {
		return nil, nil
	}
	all, _, err := xmpLabels(packet, r)
	for _, l := range all {
		out = append(out, l.value.mark("XMP packet"))
	}
	return out, err
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
		if len(out) == maxPieces {
			return nil, refuse(fault.Say("labelfile.unpacked"))
		}
		if out = append(out, c); c.kind == "IEND" {
			return out, nil
		}
		at = c.to
	}
	return nil, refuse(fault.Say("labelfile.image"))
}

// pngParts is what of a PNG concerns labels.
type pngParts struct {
	all    []chunk
	packet []byte // nil for none
	at     int    // the number of its chunk
	marks  []Mark // in other places than the packet
}

// readChunks checks that a PNG is one whose labels can be told: one with two packets is read in two ways.
func readChunks(data []byte, r *room) (p pngParts, err error) {
	if !bytes.HasPrefix(data, []byte(pngHead)) {
		return p, refuse(fault.Say("labelfile.image"))
	}
	if p.all, err = chunks(data); err != nil {
		return p, err
	}
	if p.all[0].kind != "IHDR" {
		return p, refuse(fault.Say("labelfile.image"))
	}
	for i, c := range p.all {
		keyword, _, _ := bytes.Cut(c.data[:min(len(c.data), 80)], []byte{0})
		rest := c.data[min(len(keyword)+1, len(c.data)):]
		switch {
		case c.kind == "iTXt" && string(keyword) == pngKeyword[:len(pngKeyword)-1]:
			if p.packet != nil {
				return p, refuse(fault.Say("labelfile.packets"))
			}
			if p.packet, err = internationalText(rest, r); err != nil {
				return p, err
			}
			p.at = i
		case len(p.marks) == maxMarks:
		case namesLabel(string(keyword)) && (c.kind == "iTXt" || c.kind == "tEXt" || c.kind == "zTXt"):
			p.marks = append(p.marks, textChunk(c.kind, rest, r))
		case c.kind == "eXIf" && speaksOfLabel(c.data):
			p.marks = append(p.marks, Mark{Place: "EXIF"})
		}
	}
	return p, nil
}

// textChunk reads the label of a text chunk behind its keyword. What cannot be unpacked is a label that is not whole.
func textChunk(kind string, b []byte, r *room) Mark {
	var err error
	switch {
	case kind == "iTXt":
		b, err = internationalText(b, r)
	case kind == "zTXt" && len(b) > 0:
		b, err = unpack(b[1:], maxPacket, r)
	}
	if err != nil {
		b = nil
	}
	var t text
	t.add(string(b))
	return t.mark("text chunk")
}

// internationalText returns the text of an iTXt chunk behind its keyword; it is never nil.
func internationalText(b []byte, r *room) ([]byte, error) {
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
	return unpack(b, maxPacket, r)
}

func readPNG(data []byte) (Found, error) {
	r := newRoom()
	p, err := readChunks(data, r)
	if err != nil {
		return Found{}, err
	}
	marks, err := xmpMarks(p.packet, r)
	return Found{Marks: append(p.marks, marks...)}, err
}

func writePNG(data []byte, value, _ string) ([]byte, error) {
	p, err := readChunks(data, newRoom())
	if err != nil {
		return nil, err
	}
	from, to := p.all[0].to, p.all[0].to // behind the header
	if p.packet != nil {
		from, to = p.all[p.at].from, p.all[p.at].to
	}
	packet, err := labelled(p.packet, value)
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
		if len(out) == maxPieces {
			return nil, refuse(fault.Say("labelfile.unpacked"))
		}
		out = append(out, segment{marker, start, at + 2 + n, data[at+4 : at+2+n]})
		if marker == 0xda {
			return out, nil
		}
		at += 2 + n
	}
	return nil, refuse(fault.Say("labelfile.image"))
}

// xmpSegment returns the number of the segment that has the XMP packet, and that; nil for none.
func xmpSegment(all []segment) (at int, packet []byte, err error) {
	for i, s := range all {
		if s.marker == 0xe1 && bytes.HasPrefix(s.data, []byte(jpegXMP)) {
			if packet != nil {
				return 0, nil, refuse(fault.Say("labelfile.packets"))
			}
			at, packet = i, s.data[len(jpegXMP):]
		}
	}
	return at, packet, nil
}

func readJPEG(data []byte) (Found, error) {
	all, err := segments(data)
	if err != nil {
		return Found{}, err
	}
	_, packet, err := xmpSegment(all)
	if err != nil {
		return Found{}, err
	}
	marks, err := xmpMarks(packet, newRoom())
	for _, s := range all {
		place := ""
		switch {
		case s.marker == 0xe1 && bytes.HasPrefix(s.data, []byte("Exif\x00")):
			place = "EXIF"
		case s.marker == 0xe1 && bytes.HasPrefix(s.data, []byte("http://ns.adobe.com/xmp/extension/\x00")):
			place = "extended XMP"
		case s.marker == 0xfe:
			place = "comment"
		}
		if place != "" && len(marks) < maxMarks && speaksOfLabel(s.data) {
			marks = append(marks, Mark{Place: place})
		}
	}
	return Found{Marks: marks}, err
}

func writeJPEG(data []byte, value, _ string) ([]byte, error) {
	all, err := segments(data)
	if err != nil {
		return nil, err
	}
	from := 2
	for i, s := range all {
		if s.marker == 0xe2 && bytes.HasPrefix(s.data, []byte("MPF\x00")) { // it says how large this image is, and where the others begin
			return nil, refuse(fault.Say("labelfile.several_images"))
		}
		first := i < 2 && (s.marker == 0xe0 || s.marker == 0xe1 && bytes.HasPrefix(s.data, []byte("Exif\x00")))
		if first { // JFIF and Exif want to be first
			from = s.to
		}
	}
	at, old, err := xmpSegment(all)
	if err != nil {
		return nil, err
	}
	to := from
	if old != nil {
		from, to = all[at].from, all[at].to
	}
	packet, err := labelled(old, value)
	if err != nil {
		return nil, err
	}
	body := append([]byte(jpegXMP), packet...)
	if len(body) > maxSegment {
		return nil, refuse(fault.Say("labelfile.packet_full"))
	}
	head := binary.BigEndian.AppendUint16([]byte{0xff, 0xe1}, uint16(len(body)+2)) // bounded above
	return splice(data, from, to, string(append(head, body...))), nil
}
