// Package console is the page in which people see and steer what runs. Its sources are in ui; dist
// is what was built of them, and what nodes serve under /console/.
package console

import (
	"embed"
	"io/fs"
)

//go:embed dist
var dist embed.FS

// Files returns the files of the page, by their paths below /console/; index.html is the page itself.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // "dist" is a path
	}
	return files
}
