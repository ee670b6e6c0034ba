package labelfile

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluice-project/sluice/internal/testpython"
)

// others reads each file with a library that knows nothing of this package, and prints the label that it finds and the first visible text.
const others = `
import json, sys, zipfile, docx, openpyxl, pypdf
from lxml import etree
from PIL import Image
T = "{http://www.tc260.org.cn/ns/AIGC/1.0/}AIGC"
def custom(path):
    root = etree.fromstring(zipfile.ZipFile(path).read("docProps/custom.xml"))
    return [p[0].text for p in root if p.get("name") == "AIGC"]
def packet(path):
    image = Image.open(path)
    image.load()
    raw = image.info.get("xmp") or image.info["XML:com.adobe.xmp"]
    root = etree.fromstring(raw if isinstance(raw, bytes) else raw.encode())
    return [e.text for e in root.iter(T)]
out = {}
for path in sys.argv[1:]:
    kind, seen = path.rsplit(".", 1)[1], ""
    if kind == "docx":
        labels, seen = custom(path), docx.Document(path).paragraphs[0].text
    elif kind == "xlsx":
        book = openpyxl.load_workbook(path)
        labels, seen = [p.value for p in book.custom_doc_props if p.name == "AIGC"], book["AIGC"]["A1"].value
        assert book["Data"]["A1"].value == 42
    elif kind == "pdf":
        reader = pypdf.PdfReader(path, strict=True)
        labels, seen = [reader.metadata["/AIGC"]], str(len(reader.pages)) + " " + str(reader.metadata.title)
    else:
        labels = packet(path)
    out[path.rsplit("/", 1)[1]] = dict(labels=labels, seen=seen)
print(json.dumps(out))
`

// TestOtherReaders holds DOCX, XLSX, PDF, PNG and JPEG to what python-docx, openpyxl, pypdf and Pillow read in them.
func TestOtherReaders(t *testing.T) {
	python := testpython.Python(t, "labels", "python")
	dir, all := t.TempDir(), samples(t)
	args := []string{"-c", others}
	want := map[string]string{"report.docx": sentence, "book.xlsx": sentence, "report.pdf": "1 Answer", "stream.pdf": "1 Sun (1)", "picture.png": "", "picture.jpg": ""}
	for name := range want {
		k, err := Detect(name, all[name])
		if err != nil {
			t.Fatal(err)
		}
		got, err := unsigned().Write(k, all[name], ours(t), sentence)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, got.Data, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	cmd := exec.CommandContext(t.Context(), python, args...)
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var read map[string]struct {
		Labels []string
		Seen   string
	}
	if err := json.Unmarshal(b, &read); err != nil {
		t.Fatal(err)
	}
	for name, seen := range want {
		got := read[name]
		if len(got.Labels) != 1 || mark("", got.Labels[0]).Label != ours(t) || got.Seen != seen {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
