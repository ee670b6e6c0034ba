package server_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// chatsOverSocket asks two chats over a WebSocket through client, and stops the server while the connection is open: that must not keep it.
func (in *installation) chatsOverSocket(client *http.Client) {
	in.t.Helper()
	conn, _, err := websocket.Dial(in.t.Context(), strings.Replace(in.started.BaseURL, "http", "ws", 1)+"/chat/completions", &websocket.DialOptions{
		HTTPClient: client, HTTPHeader: http.Header{"Authorization": {"Bearer " + in.started.Welcome.APIKey.Reveal()}},
	})
	if err != nil {
		in.t.Fatal(err)
	}
	defer conn.CloseNow()
	for range 2 {
		if err := conn.Write(in.t.Context(), websocket.MessageText, []byte(`{"model":"scripted","messages":[{"role":"user","content":"call 13800138000"}]}`)); err != nil {
			in.t.Fatal(err)
		}
		said := ""
		for !strings.HasSuffix(said, "[DONE]") {
			_, frame, err := conn.Read(in.t.Context())
			if err != nil {
				in.t.Fatalf("after %s: %v", said, err)
			}
			said += string(frame)
		}
		if !strings.Contains(said, `"class":"cn_mobile"`) || !strings.Contains(said, `"receipt":"`) {
			in.t.Errorf("%s", said)
		}
	}
	in.heardNothingOf("13800138000")
	go func() { _, _, _ = conn.Read(in.t.Context()) }() // as clients do
	if err := in.stop(); err != nil {
		in.t.Errorf("stop with an open WebSocket: %v", err)
	}
}

// TestTLS: with certificate files the listener speaks HTTPS only, in a version of today, and says so in its address.
func TestTLS(t *testing.T) {
	lent := httptest.NewTLSServer(http.NotFoundHandler()) // its certificate for 127.0.0.1 saves making one
	defer lent.Close()
	key, err := x509.MarshalPKCS8PrivateKey(lent.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: lent.Certificate().Raw}, "key.pem": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := start(t, setup{overrides: map[string]any{"tls.cert_file": filepath.Join(dir, "cert.pem"), "tls.key_file": filepath.Join(dir, "key.pem"), "inference_listen": "127.0.0.1:0"}})
	if !strings.HasPrefix(in.started.BaseURL, "https://127.0.0.1:") {
		t.Fatalf("the address is %s", in.started.BaseURL)
	}
	get := func(url string, cfg *tls.Config) (*http.Response, error) {
		client := http.Client{Transport: &http.Transport{TLSClientConfig: cfg}}
		defer client.CloseIdleConnections()
		res, err := client.Get(url)
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		return res, err
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(lent.Certificate())
	health := strings.TrimSuffix(in.started.BaseURL, "/v1") + "/healthz"
	res, err := get(health, &tls.Config{RootCAs: trusted})
	if err != nil || res.StatusCode != http.StatusOK || res.TLS.Version < tls.VersionTLS12 {
		t.Errorf("%v, %v", res, err)
	}
	if _, err := get(health, &tls.Config{RootCAs: trusted, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
	two := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true}}
	defer two.CloseIdleConnections()
	call, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+in.started.Inference+"/inference.GRPCInferenceService/ServerLive", bytes.NewReader(make([]byte, 5)))
	if err != nil {
		t.Fatal(err)
	}
	call.Header.Set("Content-Type", "application/grpc")
	call.Header.Set("Authorization", "Bearer "+in.started.Welcome.APIKey.Reveal())
	if res, err := two.Do(call); err != nil || res.ProtoMajor != 2 || res.StatusCode != http.StatusOK {
		t.Errorf("gRPC over TLS: %v, %v", res, err)
	} else if said, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(said, []byte{0, 0, 0, 0, 2, 8, 1}) || res.Trailer.Get("Grpc-Status") != "0" || res.Body.Close() != nil {
		t.Errorf("gRPC over TLS: %x, %v, %v", said, res.Trailer, err)
	}
	if res, err := get(strings.Replace(health, "https:", "http:", 1), nil); err == nil && res.StatusCode == http.StatusOK {
		t.Error("plain HTTP was answered")
	}
	in.chatsOverSocket(&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}})
}
