package server_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/httpapi"
	"github.com/sluice-project/sluice/server/httpapi/documenttest"
)

// described finds the operation of a management request in the API's document.
var described = sync.OnceValues(func() (routers.Router, error) {
	doc, err := openapi3.NewLoader().LoadFromFile("adminapi/openapi.yaml")
	if err != nil {
		return nil, err
	}
	doc.Servers = openapi3.Servers{{URL: adminapi.Prefix}}
	return gorillamux.NewRouter(doc)
})

// conform holds an answer of the management API to the document, whichever test asked: status, media type, body. The race detector's run, which is
// the short one, leaves it out: the schema is compiled for every answer.
func conform(t *testing.T, req *http.Request, res *http.Response, body []byte) {
	t.Helper()
	if !testing.Short() && !strings.HasPrefix(req.URL.Path, adminapi.Prefix+"/") {
		conformData(t, req, res, body)
	}
	if testing.Short() || !strings.HasPrefix(req.URL.Path, adminapi.Prefix+"/") || res.StatusCode == http.StatusNotFound && len(body) == 0 {
		return
	}
	router, err := described()
	if err != nil {
		t.Fatal(err)
	}
	plain := req.Clone(req.Context())
	plain.URL = &url.URL{Path: req.URL.Path, RawQuery: req.URL.RawQuery}
	operation, params, err := router.FindRoute(plain)
	if err != nil {
		if res.StatusCode < http.StatusBadRequest {
			t.Errorf("%s %s is answered with %d and described nowhere", req.Method, req.URL.Path, res.StatusCode)
		}
		return
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: plain, PathParams: params, Route: operation},
		Status:                 res.StatusCode, Header: res.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	input.SetBodyBytes(body)
	if err := openapi3filter.ValidateResponse(req.Context(), input); err != nil {
		t.Errorf("%s %s: the answer (%d) is not as described: %v\n%.400s", req.Method, req.URL.Path, res.StatusCode, err, body)
	}
}

// describedData is the document of the business API.
var describedData = sync.OnceValues(func() (*documenttest.Document, error) { return documenttest.Load(httpapi.Document()) })

// conformData holds an answer of the business API to its document. Paths that are neither API's are nobody's.
func conformData(t *testing.T, req *http.Request, res *http.Response, body []byte) {
	t.Helper()
	doc, err := describedData()
	if err != nil {
		t.Fatal(err)
	}
	if !doc.Has(req.URL.Path) {
		return
	}
	if err := doc.Check(req, res, body); err != nil {
		t.Error(err)
	}
}
