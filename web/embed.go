//go:build console

package web

import (
	"embed"
	"io/fs"
)

const included = true

//go:embed all:dist
var dist embed.FS

func content() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		return dist // cannot happen: the name is valid; newSite then reports the missing index page
	}
	return sub
}
