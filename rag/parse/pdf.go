package parse

type pdfEngine struct{}

func (*pdfEngine) close() error { return nil }

func (r *reading) readPDF(body []byte) (Document, error) { return Document{}, errDamaged }
