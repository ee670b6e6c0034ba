//go:build !console

package web

import (
	"embed"
	"io/fs"
)

const included = false

func content() fs.FS { return embed.FS{} }
