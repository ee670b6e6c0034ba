package labelfile

import ("testing";"os")

func TestTmp(t *testing.T) {
	os.WriteFile("/tmp/w/c2pa/ca.pem", authority(t,9,1).CertificatePEM(), 0o600)
	for _, n := range []string{"picture.png","picture.jpg","report.pdf","stream.pdf"} {
		d := samples(t)[n]
		k, _ := Detect(n, d)
		got, err := signing(t).Write(k, d, ours(t), "")
		if err != nil { t.Error(n, err); continue }
		t.Log(n, len(d), len(got.Data), got.Credentials)
		os.WriteFile("/tmp/w/c2pa/"+n, got.Data, 0o600)
	}
}
