package httpapi

import (
	_ "embed"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/identity"
)

//go:embed openapi.yaml
var openAPI31 []byte

// Document describes the data plane: OpenAPI 3.1 in YAML. Tests hold it to the routes and to what they answer. Nobody changes it.
func Document() []byte { return openAPI31 }

// showDocument answers GET /v1/openapi.yaml.
func (a *API) showDocument(c *gin.Context, _ identity.Principal, _ *gateway.Call) error {
	a.deadline(c)
	c.Data(http.StatusOK, "application/yaml; charset=utf-8", openAPI31)
	return nil
}
