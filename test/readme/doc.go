// Package readme types every command of the README into a copy of the tree and looks at what comes out.
package readme
