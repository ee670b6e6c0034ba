package server_test

import (
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/httpapi"
	"github.com/sluice-project/sluice/server/httpapi/documenttest"
)

// describedAdmin is the document of the management API, describedData that of the business API.
var (
	describedAdmin = sync.OnceValues(func() (*documenttest.Document, error) {
		document, err := os.ReadFile("adminapi/openapi.yaml")
		if err != nil {
			return nil, err
		}
		doc, err := documenttest.Load(document)
		if err == nil {
			doc.Every = true
		}
		return doc, err
	})
	describedData = sync.OnceValues(func() (*documenttest.Document, error) { return documenttest.Load(httpapi.Document()) })
)

// conform holds an answer to the document of its API, whichever test asked: status, media type, required headers, body. The race detector's run, which is
// the short one, leaves it out.
func conform(t *testing.T, req *http.Request, res *http.Response, body []byte) {
	t.Helper()
	path, admin := strings.CutPrefix(req.URL.Path, adminapi.Prefix)
	described := describedData
	if admin {
		described = describedAdmin
	}
	if testing.Short() || admin && res.StatusCode == http.StatusNotFound && len(body) == 0 {
		return
	}
	doc, err := described()
	if err != nil {
		t.Fatal(err)
	}
	if !admin && !doc.Has(path) { // it is neither API's
		return
	}
	below := req.Clone(req.Context())
	below.URL = &url.URL{Path: path}
	if err := doc.Check(below, res, body); err != nil {
		t.Error(err)
	}
}
